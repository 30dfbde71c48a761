"""Pass@k Training: the one loop.

    python -m passk_jax.train --config=configs/maze_tiny.py --workdir=runs/maze_tiny
    python -m passk_jax.train --config=configs/maze_tiny.py --config.advantage.k=8

A step samples, verifies, estimates and updates. Dynamic sampling repeats the first
three to replace problems without a signal. A checkpoint is the state before a step: the
same command continues from the newest one, bit for bit.
"""

import contextlib
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging
from jax import numpy as jnp

from passk_jax import cli, sharding
from passk_jax import config as configs
from passk_jax.advantages import AdvantageFn, make, rewards
from passk_jax.config import ExperimentConfig
from passk_jax.data import EvaluationBatches
from passk_jax.errors import InputError
from passk_jax.hosts import join_hosts
from passk_jax.initial.params import ONLY_ROUNDING
from passk_jax.learning import learner
from passk_jax.learning import optimizer as optimizers
from passk_jax.models.families.table import FAMILIES
from passk_jax.rollouts.dynamic_sampling import Draw, Selection
from passk_jax.rollouts.sample_and_verify import Responses, verify
from passk_jax.run_log import RunLog
from passk_jax.runs.checkpoints import Checkpoints
from passk_jax.runs.directory import prepare_workdir
from passk_jax.runs.preemption import EXIT_PREEMPTED, PreemptionGuard
from passk_jax.sampling import Purpose, problem_keys, step_key
from passk_jax.setup import Setup, make_setup
from passk_jax.tasks import make_task, require
from passk_jax.tasks.abilities import Demonstrations
from passk_jax.types import Rollouts


def train(config: ExperimentConfig, workdir: pathlib.Path) -> bool:
    """Trains until the last step or a preemption; the run directory is the result.

    Args:
        config: the experiment.
        workdir: a prepared run directory.

    Returns:
        True after the last step, False after a preemption.

    Raises:
        ValueError: the configuration is invalid, or a reward is not finite.
        NonFiniteError: a loss is not finite; the last checkpoint is kept.
    """
    setup = make_setup(config)
    warn_of_settings(config)
    if jax.process_index() == 0:
        setup.tokenizer.save_pretrained(workdir / 'tokenizer')
    estimate = make_estimate(setup)
    batches = setup.train_batches()
    # Every split that is evaluated at all is due at step 0.
    splits = {s: setup.evaluation_batches(s) for s in splits_due(config, 0)}
    sample = setup.sampler(
        config.sampling.options, num_rollouts=config.sampling.num_rollouts
    )
    keys = functools.partial(step_key, seed=config.seed, purpose=Purpose.ROLLOUTS)
    num_updates = config.train.num_updates
    optimizer = optimizers.make_optimizer(config.optimizer, num_updates=num_updates)
    checkpoints = Checkpoints(workdir / 'checkpoints', keep=config.checkpoint.keep)
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.set_mesh(setup.mesh))
        guard = stack.enter_context(PreemptionGuard())
        update = make_update(setup, optimizer)
        first = first_state(setup, optimizer, checkpoints, workdir, guard)
        if first is None:
            return False
        state, ref_params = first
        start, last = int(state.step), config.train.steps
        log = stack.enter_context(make_log(config, workdir, start))
        for step in range(start, last + 1):
            preempted = guard.requested(step) or not evaluate_due(
                setup, state.params, splits, log, step, stop=guard.interrupted
            )
            if preempted or step == last or step % config.checkpoint.every == 0:
                log.flush()
                checkpoints.save(
                    step,
                    params=state.params,
                    opt_state=state.opt_state,
                    meta={'step': step, 'name': config.name, 'seed': config.seed},
                )
            if preempted or step == last:
                return not preempted
            selection, key = make_selection(setup, estimate, step), keys(step=step)
            with jax.profiler.StepTraceAnnotation('train', step_num=step):
                for problems, prompts, is_new in selection.batches(batches):
                    sampled = sample(state.params, problems, prompts, key=key)
                    responses = verify(sampled, step=step)
                    estimated = estimate(sampled.rollouts, responses, step)
                    draw = Draw(problems, responses, *estimated)
                    selection.add(sampled.rollouts, draw, is_new)
                batch = selection.rollouts, selection.advantages
                state, figures = update(state, *batch, ref_params)
            log.step(step, selection.draws, figures)
    raise AssertionError('the loop returns at its last step')


def splits_due(config: ExperimentConfig, step: int) -> tuple[str, ...]:
    """The splits to evaluate before this step."""
    every, final_split = config.eval.every, config.eval.final_split
    at_an_end = step in (0, config.train.steps)
    due = [config.eval.split] if every and (at_an_end or step % every == 0) else []
    if final_split and at_an_end and final_split not in due:
        due.append(final_split)
    return tuple(due)


def evaluate_due(
    setup: Setup,
    params: Any,
    splits: dict[str, EvaluationBatches],
    log: RunLog,
    step: int,
    *,
    stop: Callable[[], bool],
) -> bool:
    """Evaluates the splits that are due; False if ``stop`` interrupts it."""
    evaluate = setup.evaluator()
    for split in splits_due(setup.config, step):
        log.flush()
        result = evaluate(params, splits[split], split=split, step=step, stop=stop)
        if result is None:
            return False
        log.evaluation(step, split, *result)
    return True


def first_state(
    setup: Setup,
    optimizer: Any,
    checkpoints: Checkpoints,
    workdir: pathlib.Path,
    guard: PreemptionGuard,
) -> tuple[learner.TrainState, Any] | None:
    """The state to start from, and the parameters of the reference policy, if any.

    The state comes from the newest checkpoint, else from the initial policy. The result
    is ``None`` if the process is told to stop while it makes the initial policy.
    """
    config, policy, mesh = setup.config, setup.policy, setup.mesh
    resumes = checkpoints.latest_step() is not None
    ref_params = params = None
    if config.loss.kl_coef or not resumes:
        params = setup.initial_params(workdir, stop=guard.interrupted)
        if params is None:
            return None
    if config.loss.kl_coef:
        ref_params = params
        # Updates overwrite the state's parameters, so the reference needs its own.
        params = jax.tree.map(jnp.copy, params)
    if not resumes:
        return learner.init_state(policy, optimizer, params, mesh), ref_params
    shapes = learner.state_shapes(policy, optimizer, mesh)
    saved = checkpoints.restore(params=shapes.params, opt_state=shapes.opt_state)
    logging.info('resuming at step %d', saved.step)
    step = jax.device_put(np.int32(saved.step), shapes.step.sharding)
    return learner.TrainState(saved.params, saved.opt_state, step), ref_params


def make_log(config: ExperimentConfig, workdir: pathlib.Path, start: int) -> RunLog:
    """The run's log from step ``start`` on."""
    return RunLog(
        workdir,
        config.log,
        name=config.name,
        steps=config.train.steps,
        start=start,
        k=config.advantage.k,
        mask_truncated=config.loss.mask_truncated,
        settings=configs.to_dict(config),
    )


def make_selection(setup: Setup, estimate: Callable[..., Any], step: int) -> Selection:
    """Selects the problems that a step trains on."""
    config = setup.config
    return Selection(
        step,
        rounds=config.train.dynamic_sampling_rounds,
        mask_truncated=config.loss.mask_truncated,
        seed=(config.seed, Purpose.EXTRA_PROBLEMS),
        estimate=estimate,
        mesh=setup.mesh,
    )


def make_update(setup: Setup, optimizer: Any) -> Callable[..., Any]:
    """Makes the verb ``update(state, rollouts, advantages, ref_params)``."""
    config, train = setup.config, setup.config.train
    return learner.make_train_step(
        setup.policy,
        optimizer,
        setup.mesh,
        loss=config.loss,
        temperature=config.sampling.temperature,
        num_updates=train.num_prompts // train.mini_batch_prompts,
        num_micro_batches=train.mini_batch_prompts // train.micro_batch_prompts,
        pack_sizes=train.pack_sizes,
        epochs=train.epochs,
    )


def configured_estimator(config: ExperimentConfig) -> AdvantageFn:
    """The estimator that the configuration names, its parameters checked.

    Raises:
        ValueError: an unknown estimator, or a parameter that it does not accept.
    """
    return make.estimator_of_config(
        config.advantage.name,
        {'k': config.advantage.k, **config.advantage.parameters},
        num_rollouts=config.sampling.num_rollouts,
    )


def make_estimate(setup: Setup) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Makes the verb ``estimate(rollouts, responses, step)``.

    It returns ``[P, N]`` advantages, and which responses it took to be correct.
    """
    config = setup.config
    estimator = configured_estimator(config)

    @jax.jit
    def compute(values, correct, rollouts, groups_key, noise_key):
        ids = rollouts.prompts.problem_ids
        if fraction := config.reward.flip_wrong:
            keys = problem_keys(noise_key, ids)
            values, correct = rewards.flip_wrong(
                values, correct, fraction=fraction, keys=keys
            )
        tokens = rollouts.lengths.sum(axis=-1)
        advantages = estimator(
            values,
            correct,
            key=problem_keys(groups_key, ids),
            mean_entropy=rollouts.entropies.sum(axis=(-2, -1)) / tokens,
            lengths=rollouts.lengths,
            log_probs=rollouts.sampler_log_probs.sum(axis=-1),
        )
        return advantages, correct

    def estimate(rollouts: Rollouts, responses: Responses, step: int) -> Any:
        key = functools.partial(step_key, seed=config.seed, step=step)
        verdicts = responses.verdicts
        return compute(
            *sharding.place(setup.mesh, (verdicts.rewards, verdicts.correct)),
            rollouts,
            key(purpose=Purpose.GROUPS),
            key(purpose=Purpose.REWARD_NOISE),
        )

    return estimate


def check_names(config: ExperimentConfig) -> None:
    """Checks every name in the configuration, before it touches a directory or device.

    Raises:
        ValueError: an unknown task, split, kind of demonstration, model family or
            estimator, or a parameter that the estimator does not accept.
    """
    configured_estimator(config)
    task = make_task(config.task.name, config.task.params)
    for split in splits_due(config, 0):
        if split not in task.splits:
            raise InputError(f'{split=} to evaluate is none of {list(task.splits)}')
    if config.init.kind == 'warm_start':
        able = require(task, Demonstrations, needed_by="init.kind='warm_start'")
        demonstrations = config.init.warm_start.demonstrations
        if demonstrations not in able.demonstrations:
            kinds = list(able.demonstrations)
            raise InputError(f'init.warm_start.{demonstrations=} is none of {kinds}')
    if config.model.family and config.model.family not in FAMILIES:
        raise InputError(f'{config.model.family=} is none of {sorted(FAMILIES)}')


def warn_of_settings(config: ExperimentConfig) -> None:
    """Names the settings that train, but not what a person is likely to think."""
    if config.sampling.truncates and not config.loss.sampler_weight_cap:
        logging.warning(
            'sampling.top_p, top_k or min_p cuts the distribution of the tokens, but '
            'the loss takes them for draws from all of it: loss.sampler_weight_cap=2 '
            'weights them for the difference'
        )
    if config.model.param_dtype == 'bfloat16':
        logging.warning(
            'model.param_dtype=bfloat16 rounds most updates away: 2 % of the weights '
            'moved in 100 updates of which float32 moved all; '
            'model.compute_dtype=bfloat16 needs no such weights'
        )
    if config.loss.kl_coef and config.loss.kl_estimator == 'k1':
        logging.warning(
            'loss.kl_estimator=k1 has no gradient in expectation: loss.kl_coef=%g only '
            'adds noise, and holds nothing near the first policy; take k2 or k3',
            config.loss.kl_coef,
        )


def main(*, config: ExperimentConfig, workdir: str = '', hosts: str = '') -> int:
    """Prepares the run directory and trains."""
    check_names(config)
    join_hosts(hosts)
    # Neither kept texts nor parameters of other estimators change a figure.
    read = make.estimator_parameters(config.advantage.name)
    unread = [f'advantage.{p}' for p in config.advantage.parameters if p not in read]
    may_differ = ('mesh.', 'eval.kept_responses', *ONLY_ROUNDING, *unread)
    workdir, text = workdir or f'runs/{config.name}', configs.to_json(config)
    with prepare_workdir(workdir, text, may_differ=may_differ) as path:
        finished = train(config, path)
    if not finished:
        return EXIT_PREEMPTED
    logging.info('done: open %s', path / 'report.html')
    return 0


if __name__ == '__main__':
    cli.run(main)
