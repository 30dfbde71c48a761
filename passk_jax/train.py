"""Pass@k Training: the one loop.

    python -m passk_jax.train --config=configs/maze_tiny.py --workdir=runs/maze_tiny
    python -m passk_jax.train --config=configs/maze_tiny.py --config.advantage.k=8

A step is sample, verify, estimate, update; with dynamic sampling the first three go on
until the batch is full of problems with a signal. A checkpoint is the state before a
step; run the same command again and it goes on from the newest one, bit for bit.
"""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import flags, logging
from jax import numpy as jnp

from passk_jax import cli, hosts, sampling
from passk_jax import config as configs
from passk_jax.advantages import (
    AdvantageFn,
    estimator_of_config,
    estimator_parameters,
    rewards,
)
from passk_jax.cli.flags import CONFIG
from passk_jax.config import ExperimentConfig
from passk_jax.data import Batches, EvaluationBatches, make_batches
from passk_jax.errors import InputError
from passk_jax.evaluation import evaluate, evaluation_batches
from passk_jax.initial.params import ONLY_ROUNDING, initial_params
from passk_jax.learning import learner
from passk_jax.models.families.table import FAMILIES
from passk_jax.rollouts import sample_and_verify
from passk_jax.rollouts.dynamic_sampling import Draw, Draws, draw_step
from passk_jax.run_log import RunLog
from passk_jax.runs.checkpoints import Checkpoints
from passk_jax.runs.directory import prepare_workdir
from passk_jax.runs.preemption import EXIT_PREEMPTED, PreemptionGuard
from passk_jax.sampling import Purpose
from passk_jax.setup import Setup, make_setup
from passk_jax.tasks import make_task
from passk_jax.types import Problem, Prompts, Rollouts


def train(config: ExperimentConfig, workdir: pathlib.Path) -> bool:
    """Trains until the last step or a preemption; the run directory is the result.

    Args:
        config: the experiment.
        workdir: a prepared run directory.

    Returns:
        Whether the last step was reached; ``False`` after a preemption, saved.

    Raises:
        ValueError: the configuration does not fit, or a reward is not finite.
        FloatingPointError: a loss is not finite; the last checkpoint is kept.
    """
    setup = make_setup(config)
    if jax.process_index() == 0:
        setup.tokenizer.save_pretrained(workdir / 'tokenizer')
    estimate = make_estimate(setup)
    batches = train_batches(setup)
    evaluations = evaluation_splits(setup)
    optimizer = learner.make_optimizer(config.optimizer)
    checkpoints = Checkpoints(workdir / 'checkpoints', keep=config.checkpoint.keep)
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.set_mesh(setup.mesh))
        guard = stack.enter_context(PreemptionGuard())
        train_step = make_train_step(setup, optimizer)
        first = first_state(setup, optimizer, checkpoints, workdir, guard)
        if first is None:
            return False
        state, ref_params = first
        start, last = int(state.step), config.train.steps
        log = stack.enter_context(RunLog(setup, workdir, start))
        for step in range(start, last + 1):
            preempted = guard.requested(step) or not evaluate_due(
                setup, state, evaluations, log, guard, step
            )
            if preempted or step == last or step % config.checkpoint.every == 0:
                log.flush()
                save(checkpoints, config, state, step)
            if preempted or step == last:
                return not preempted
            with jax.profiler.StepTraceAnnotation('train', step_num=step):
                rollouts, draws = sample_step(
                    setup, state.params, batches, estimate, step
                )
                state, step_metrics = train_step(
                    state, rollouts, draws.trained.advantages, ref_params
                )
            log.step(step, draws, step_metrics)
    raise AssertionError('the loop returns at its last step')


def train_batches(setup: Setup) -> Batches:
    """The training problems: ``batches[step]`` is a pure function of the step."""
    config = setup.config
    return make_batches(
        setup.task.source('train', data_dir=config.data.dir),
        setup.encode,
        num_prompts=config.train.num_prompts,
        seed=(config.seed, Purpose.ROLLOUTS),
        max_prompt_tokens=config.data.max_prompt_tokens,
        overlong=config.data.overlong,
    )


def evaluation_splits(setup: Setup) -> dict[str, EvaluationBatches]:
    """The problems of every split that will be evaluated, read before training."""
    # All of them are due before the first step.
    splits = splits_due(setup.config, 0)
    return {split: evaluation_batches(setup, split) for split in splits}


def splits_due(config: ExperimentConfig, step: int) -> tuple[str, ...]:
    """What is evaluated before this step."""
    due = []
    ends = step in (0, config.train.steps)
    if config.eval.every and (ends or step % config.eval.every == 0):
        due.append(config.eval.split)
    if config.eval.final_split and ends and config.eval.final_split not in due:
        due.append(config.eval.final_split)
    return tuple(due)


def evaluate_due(
    setup: Setup,
    state: learner.TrainState,
    evaluations: dict[str, EvaluationBatches],
    log: RunLog,
    guard: PreemptionGuard,
    step: int,
) -> bool:
    """Evaluates what is due before this step; False if told to stop meanwhile."""
    for split in splits_due(setup.config, step):
        log.flush()
        result = evaluate(
            setup,
            state.params,
            evaluations[split],
            split=split,
            step=step,
            stop=guard.interrupted,
        )
        if result is None:
            return False
        log.evaluation(step, split, *result)
    return True


def make_train_step(setup: Setup, optimizer: Any) -> Callable[..., Any]:
    """The learner's step as this configuration has it."""
    config = setup.config
    return learner.make_train_step(
        setup.policy,
        optimizer,
        setup.mesh,
        loss=config.loss,
        temperature=config.sampling.temperature,
        num_updates=config.train.num_prompts // config.train.mini_batch_prompts,
        num_micro_batches=(
            config.train.mini_batch_prompts // config.train.micro_batch_prompts
        ),
        pack_sizes=config.train.pack_sizes,
    )


def first_state(
    setup: Setup,
    optimizer: Any,
    checkpoints: Checkpoints,
    workdir: pathlib.Path,
    guard: PreemptionGuard,
) -> tuple[learner.TrainState, Any] | None:
    """The newest checkpoint or the initial policy, and the reference policy or None.

    ``None`` altogether if told to stop while the initial policy was being made.
    """
    resumes = checkpoints.latest_step() is not None
    ref_params = params = None
    if setup.config.loss.kl_coef or not resumes:
        params = initial_params(setup, workdir, stop=guard.interrupted)
        if params is None:
            return None
    if setup.config.loss.kl_coef:
        ref_params = params
        # The state takes its parameters over; the reference keeps its own.
        params = jax.tree.map(jnp.copy, params)
    if not resumes:
        return learner.init_state(
            setup.policy, optimizer, params, setup.mesh
        ), ref_params
    shapes = learner.state_shapes(setup.policy, optimizer, setup.mesh)
    saved = checkpoints.restore(params=shapes.params, opt_state=shapes.opt_state)
    logging.info('resuming at step %d', saved.step)
    step = jax.device_put(np.int32(saved.step), shapes.step.sharding)
    return learner.TrainState(saved.params, saved.opt_state, step), ref_params


def save(
    checkpoints: Checkpoints,
    config: ExperimentConfig,
    state: learner.TrainState,
    step: int,
) -> None:
    """Saves the state before ``step``."""
    meta = {'step': step, 'name': config.name, 'seed': config.seed}
    checkpoints.save(step, params=state.params, opt_state=state.opt_state, meta=meta)


def sample_step(
    setup: Setup,
    params: Any,
    batches: Batches,
    estimate: Callable[..., jax.Array],
    step: int,
) -> tuple[Rollouts, Draws]:
    """Sample, verify, estimate: what the learner gets, and how it was drawn."""
    config = setup.config
    key = sampling.step_key(seed=config.seed, purpose=Purpose.ROLLOUTS, step=step)
    settings = dataclasses.asdict(config.sampling)

    def estimate_now(
        rollouts: Rollouts, answers: sample_and_verify.Answers
    ) -> jax.Array:
        return estimate(rollouts, answers, step)

    def answer(problems: list[Problem], prompts: Prompts) -> tuple[Rollouts, Draw]:
        rollouts, answers = sample_and_verify.answer(
            setup, params, problems, prompts, key=key, step=step, **settings
        )
        return rollouts, Draw(problems, answers, estimate_now(rollouts, answers))

    others = batches.others(step, seed=(config.seed, Purpose.EXTRA_PROBLEMS))
    return draw_step(setup, batches[step], others, answer=answer, estimate=estimate_now)


def configured_estimator(config: ExperimentConfig) -> AdvantageFn:
    """The estimator of the configuration, whose every parameter is checked.

    Raises:
        ValueError: an unknown estimator, or a parameter it cannot have.
    """
    return estimator_of_config(
        config.advantage.name,
        {'k': config.advantage.k, **config.advantage.parameters},
        num_rollouts=config.sampling.num_rollouts,
    )


def unread_parameters(config: ExperimentConfig) -> tuple[str, ...]:
    """Keys of the parameters that other estimators read and this run does not."""
    read = estimator_parameters(config.advantage.name)
    return tuple(f'advantage.{p}' for p in config.advantage.parameters if p not in read)


def make_estimate(setup: Setup) -> Callable[..., jax.Array]:
    """Makes ``estimate(rollouts, answers, step) -> advantages [P, N]``."""
    config = setup.config
    estimator = configured_estimator(config)

    @jax.jit
    def compute(values, correct, rollouts, groups_key, noise_key):
        ids = rollouts.prompts.problem_ids
        if config.reward.flip_wrong:
            values, correct = rewards.flip_wrong(
                values,
                correct,
                fraction=config.reward.flip_wrong,
                keys=sampling.problem_keys(noise_key, ids),
            )
        tokens = rollouts.lengths.sum(axis=-1)
        return estimator(
            values,
            correct,
            key=sampling.problem_keys(groups_key, ids),
            mean_entropy=rollouts.entropies.sum(axis=(-2, -1)) / tokens,
            lengths=rollouts.lengths,
            log_probs=rollouts.sampler_log_probs.sum(axis=-1),
        )

    def estimate(
        rollouts: Rollouts, answers: sample_and_verify.Answers, step: int
    ) -> jax.Array:
        key = functools.partial(sampling.step_key, seed=config.seed, step=step)
        verdicts = sample_and_verify.place(
            setup, (answers.verdicts.rewards, answers.verdicts.correct)
        )
        return compute(
            *verdicts,
            rollouts,
            key(purpose=Purpose.GROUPS),
            key(purpose=Purpose.REWARD_NOISE),
        )

    return estimate


def check_names(config: ExperimentConfig) -> None:
    """Looks up what the configuration names, before a directory or device is touched.

    Raises:
        ValueError: an unknown task, split, kind of demonstration, model family or
            estimator, or a parameter that it cannot have.
    """
    configured_estimator(config)
    task = make_task(config.task.name, config.task.params)
    for split in splits_due(config, 0):
        if split not in task.splits:
            raise InputError(f'{split=} to evaluate is none of {list(task.splits)}')
    demonstrations = config.init.warm_start.demonstrations
    if config.init.kind == 'warm_start' and demonstrations not in task.demonstrations:
        raise InputError(
            f'init.warm_start.{demonstrations=} is none of {list(task.demonstrations)}'
        )
    if config.model.family and config.model.family not in FAMILIES:
        raise InputError(f'{config.model.family=} is none of {sorted(FAMILIES)}')


def main() -> int:
    """Reads the flags, prepares the run directory and trains."""
    config = configs.from_config_dict(CONFIG.value)
    check_names(config)
    hosts.join_hosts(hosts.HOSTS.value)
    workdir = cli.WORKDIR.value or f'runs/{config.name}'
    may_differ = ('mesh.', *ONLY_ROUNDING, *unread_parameters(config))
    with prepare_workdir(
        workdir, configs.to_json(config), may_differ=may_differ
    ) as path:
        finished = train(config, path)
    if not finished:
        return EXIT_PREEMPTED
    logging.info('done: open %s', path / 'report.html')
    return 0


if __name__ == '__main__':
    flags.mark_flag_as_required('config')
    cli.run(main)
