"""Pass@k Training: the training loop.

    python -m passk_jax.train --config=configs/maze_tiny.py --workdir=runs/maze_tiny
    python -m passk_jax.train --config=configs/maze_tiny.py --config.advantage.k=8

A step samples, verifies, estimates and updates. Dynamic sampling repeats the first
three to replace problems without a signal. A checkpoint is the state before a step: the
same command resumes from the newest one, bit for bit.
"""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable

import jax
import numpy as np
from absl import logging
from jax import numpy as jnp
from jax.sharding import Mesh

from passk_jax import cli, sharding
from passk_jax import config as configs
from passk_jax.config import ExperimentConfig
from passk_jax.data.batches import EvaluationBatches
from passk_jax.data.difficulty import RunMemory
from passk_jax.diagnostics.step import Diagnose, Diagnosis
from passk_jax.evaluation.evaluate import Evaluate
from passk_jax.learning import state as states
from passk_jax.learning.optimizer import Optimizer, make_optimizer
from passk_jax.learning.state import TrainState
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.models.frozen import Weights, reference_params, split_weights
from passk_jax.models.policy import Params, Policy
from passk_jax.planning.utilization import Rates, make_rates
from passk_jax.report.run_log import RunLog
from passk_jax.rollouts.dynamic_sampling import Draw, Select, Selection
from passk_jax.rollouts.estimate import Estimate
from passk_jax.rollouts.remember import Remember
from passk_jax.rollouts.sample import Sample
from passk_jax.rollouts.verify import Verify
from passk_jax.runs.checkpoints import (
    Checkpoints,
    from_intact,
    keep_frozen,
    keep_params,
)
from passk_jax.runs.directory import has_begun
from passk_jax.runs.phases import Phases
from passk_jax.runs.preemption import EXIT_PREEMPTED, PreemptionGuard
from passk_jax.runs.retention import Retention
from passk_jax.runs.saved_config import stage_of
from passk_jax.runs.sources import remember_sources
from passk_jax.runtime.allocator import return_freed_memory
from passk_jax.runtime.compile_cache import keep_programs
from passk_jax.runtime.hosts import broadcast, expect_chips, join_hosts
from passk_jax.runtime.profiling import Profile, parse_steps
from passk_jax.sampling import Purpose
from passk_jax.setup.checks import check_names, check_signal, open_workdir, splits_due
from passk_jax.setup.first_problem import announce
from passk_jax.setup.setup import Setup, make_setup


def train(
    config: ExperimentConfig, workdir: pathlib.Path, *, traced: range = range(0)
) -> bool:
    """Trains until the last step or a preemption; writes to the run directory.

    Args:
        config: the experiment.
        workdir: a prepared run directory.
        traced: steps that the profiler traces.

    Returns:
        True after the last step, False after a preemption.

    Raises:
        InputError: the configuration is invalid, or a reward is not finite.
        NonFiniteError: a loss is not finite; the last checkpoint stays.
    """
    setup = make_setup(config)
    if jax.process_index() == 0:
        setup.tokenizer.save_pretrained(workdir / 'tokenizer')
    stages = configs.stages_of(config)
    meta = {'name': config.name, 'seed': config.seed}
    retention = Retention.of(config.checkpoint)
    checkpoints = Checkpoints(workdir / 'checkpoints', keep=retention)
    # Read the problems before making the first policy, which may take long.
    stage = configs.stage_at(stages, checkpoints.latest_step() or 0)
    verbs = make_verbs(setup, stage)
    # Step 0 evaluates every split that is evaluated at all.
    splits = {s: setup.evaluation_batches(s) for s in splits_due(config, 0)}
    announce(setup, splits, is_new=checkpoints.latest_step() is None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.set_mesh(setup.mesh))
        guard = stack.enter_context(PreemptionGuard())
        with Phases.of(config.log) as phases:
            beginning = begin_run(setup, verbs, checkpoints, workdir, guard, phases)
        if beginning is None:
            return False
        state, memory, frozen = beginning.state, beginning.memory, beginning.frozen
        start, last = int(state.step), config.train.steps
        policy, mesh = setup.policy, setup.mesh
        log = stack.enter_context(make_log(config, workdir, start))
        stack.enter_context(checkpoints)
        profile = stack.enter_context(Profile(workdir / 'profile', traced))
        log.begin_stage(stage.config.stage, verbs.rates)
        for step in range(start, last + 1):
            log.begin('update', step)
            checkpoints.check()
            if (current := configs.stage_at(stages, step)) is not stage:
                stage, verbs = current, make_verbs(setup, current)
                memory = verbs.remember.begin_stage(memory)
                log.begin_stage(stage.config.stage, verbs.rates)
            # Wait for the update here, so that its time counts as its own phase.
            weights = jax.block_until_ready(Weights(frozen, state.params))
            log.begin('wait', step)
            preempted = guard.interrupted() or not evaluate_due(
                verbs, weights.merged, splits, log, step, stop=guard.interrupted
            )
            due = splits_due(config, step)
            if preempted or config.checkpoint.is_due(step, last=last, evaluated=due):
                log.begin('checkpoint', step)
                meta |= {'step': step, 'digests': log.digests(step)}
                checkpoints.save(
                    step,
                    params=state.params,
                    opt_state=state.opt_state,
                    memory=memory,
                    meta=meta | {'metrics': log.evaluated(step)},
                )
            if preempted or step == last:
                return not preempted
            if step == stage.start and stage.resets_optimizer:
                state = states.reset_optimizer(policy, verbs.optimizer, state, mesh)
                # The reset donated the old arrays.
                weights = dataclasses.replace(weights, trained=state.params)
            selection = verbs.select(step, memory)
            key = verbs.setup.keys.key(Purpose.ROLLOUTS, step)
            with profile.step(step):
                batches = verbs.remember.batches_after(memory)
                for batch, is_new in selection.batches(batches):
                    log.begin('decode', step)
                    sampled = verbs.sample(weights.merged, batch, key=key)
                    responses = verbs.verify(sampled, step=step, begin_phase=log.begin)
                    log.begin('estimate', step)
                    estimated = verbs.estimate(
                        sampled.rollouts, responses, memory=memory, step=step
                    )
                    draw = Draw(batch.problems, responses, *estimated)
                    selection.add(sampled.rollouts, draw, is_new)
                    del sampled  # Free its memory before the next draw.
                log.begin('update', step)
                diagnosis = diagnose_due(verbs, weights, selection, step)
                reference = beginning.reference if stage.config.loss.kl_coef else None
                state, figures = verbs.update(
                    state, selection.rollouts, selection.advantages, reference, frozen
                )
                memory = verbs.remember(memory, selection.draws.first)
            log.begin('write', step)
            log.step(step, selection.draws, figures, diagnosis)
            del selection
            return_freed_memory(every=10.0)
    raise AssertionError('the loop returns at its last step')


@dataclasses.dataclass(frozen=True)
class Verbs:
    """The verbs that the loop calls in a stage, and the stage's setup."""

    setup: Setup
    optimizer: Optimizer
    sample: Sample
    verify: Verify
    estimate: Estimate
    select: Select
    update: Update
    remember: Remember
    evaluate: Evaluate
    diagnose: Diagnose | None
    rates: Rates


def make_verbs(setup: Setup, stage: configs.Stage) -> Verbs:
    """Makes the verbs of a stage."""
    setup, optimizer = setup.select_stage(stage), stage_optimizer(stage)
    config, sample, estimate = setup.config, setup.sample(), setup.estimate()
    return Verbs(
        setup=setup,
        optimizer=optimizer,
        sample=sample,
        verify=sample.verify,
        estimate=estimate,
        select=setup.select(estimate),
        update=setup.update(optimizer),
        remember=setup.remember(),
        evaluate=setup.evaluate(),
        diagnose=make_diagnose(setup) if config.log.diagnostics_every else None,
        rates=make_rates(setup.policy.arch, setup.mesh, config.train, config.loss),
    )


def make_diagnose(setup: Setup) -> Diagnose:
    """Makes the verb that diagnoses a step."""
    config = setup.config
    return Diagnose.configured(
        setup.policy,
        setup.mesh,
        advantage=config.advantage,
        loss=config.loss,
        train=config.train,
        sampling=config.sampling,
        log=config.log,
    )


def stage_optimizer(stage: configs.Stage) -> Optimizer:
    """Makes the optimizer of a stage; all stages' states have one structure."""
    return make_optimizer(stage.config.optimizer, num_updates=stage.num_updates)


def evaluate_due(
    verbs: Verbs,
    params: Params,
    splits: dict[str, EvaluationBatches],
    log: RunLog,
    step: int,
    *,
    stop: Callable[[], bool],
) -> bool:
    """Evaluates the splits that are due; returns False if ``stop`` interrupts."""
    due = splits_due(verbs.setup.config, step)
    if not due:
        return True
    log.flush()
    begin = functools.partial(log.begin, 'evaluate', step)
    begin()
    for split in due:
        result = log.known_evaluation(step, split) or verbs.evaluate(
            params, splits[split], split=split, step=step, stop=stop, on_progress=begin
        )
        if result is None:
            return False
        log.evaluation(step, split, *result)
    log.report()
    return True


def diagnose_due(
    verbs: Verbs, weights: Weights, selection: Selection, step: int
) -> Diagnosis | None:
    """Diagnoses the batch that a step trains on, if due."""
    if verbs.diagnose is None or step % verbs.setup.config.log.diagnostics_every:
        return None
    trained = selection.draws.trained
    batch = selection.rollouts, trained.advantages, trained.rewarded
    return verbs.diagnose(weights.trained, *batch, weights.frozen)


@dataclasses.dataclass(frozen=True)
class Beginning:
    """What the loop starts with, in a new run or a resumed one.

    Attributes:
        state, memory: from the newest checkpoint, or as before step 0.
        reference: the parameters of the KL penalty's reference, without the frozen
            ones; empty if no stage has a KL penalty.
        frozen: the parameters that no step changes.
    """

    state: TrainState
    memory: RunMemory
    reference: Params
    frozen: Params


def begin_run(
    setup: Setup,
    verbs: Verbs,
    checkpoints: Checkpoints,
    workdir: pathlib.Path,
    guard: PreemptionGuard,
    phases: Phases,
) -> Beginning | None:
    """Makes the first policy, or restores a checkpoint; ``None`` if interrupted.

    Each step of a warm start is a phase.
    """
    policy, mesh = setup.policy, setup.mesh
    stages = configs.stages_of(setup.config)
    optimizer, memory = stage_optimizer(stages[0]), verbs.remember.begin()
    resumes = checkpoints.latest_step() is not None
    shapes = split_weights(policy, policies.param_shapes(policy, mesh))
    has_reference = any(stage.config.loss.kl_coef for stage in stages)
    needed = reference_params(policy, shapes.trained) if has_reference else {}
    keep_reference = functools.partial(keep_params, workdir, 'reference', target=needed)
    weights, reference = Weights({}, {}), keep_reference({}) if resumes else None
    # Runs of older versions kept no reference.
    if reference is None:
        on_step = functools.partial(phases.begin, 'warm start')
        params = setup.initial_params(workdir, stop=guard.interrupted, on_step=on_step)
        if params is None:
            return None
        weights = split_weights(policy, params)
        reference = {name: weights.trained[name] for name in needed}
    frozen = keep_frozen(workdir, {} if resumes else weights.frozen, shapes.frozen)
    if resumes:
        state, memory = restore(checkpoints, policy, optimizer, memory, mesh)
    else:
        trained = weights.trained
        if keep_reference(reference):
            # Updates overwrite the state's parameters; the reference needs a copy.
            trained = jax.tree.map(jnp.copy, trained)
        state = states.init_state(policy, optimizer, trained, mesh)
    return Beginning(state, memory, reference, frozen)


def restore(
    checkpoints: Checkpoints,
    policy: Policy,
    optimizer: Optimizer,
    memory: RunMemory,
    mesh: Mesh,
) -> tuple[TrainState, RunMemory]:
    """Restores state and memory from the newest checkpoint.

    ``memory`` has the shapes and dtypes of the run's memory.
    """
    shapes = states.state_shapes(policy, optimizer, mesh)
    # The host's memory is not sharded: every device reads all of it.
    replicated = sharding.replicated(mesh)
    remembered = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=replicated), memory
    )
    saved = checkpoints.restore(
        params=shapes.params, opt_state=shapes.opt_state, memory=remembered
    )
    logging.info('resuming at step %d', saved.step)
    step = jax.device_put(np.int32(saved.step), shapes.step.sharding)
    return TrainState(saved.params, saved.opt_state, step), saved.memory


def make_log(config: ExperimentConfig, workdir: pathlib.Path, start: int) -> RunLog:
    """Makes the run's log from step ``start`` on."""
    return RunLog(
        workdir,
        config.log,
        name=config.name,
        steps=config.train.steps,
        start=start,
        ks={stage.config.advantage.k for stage in configs.stages_of(config)},
        mask_truncated=config.loss.mask_truncated,
        settings=configs.to_dict(config),
    )


def main(
    *,
    config: ExperimentConfig,
    workdir: str | None = None,
    accept_loss: bool = False,
    hosts: str = '',
    expect: str = '',
    profile: str = '',
) -> int:
    """Prepares the run directory and trains."""
    check_names(config)
    traced = parse_steps(profile, last=config.train.steps)
    directory = pathlib.Path(workdir or f'runs/{config.name}').expanduser()
    join_hosts(hosts)
    keep_programs(directory)
    expect_chips(expect)
    for stage in configs.stages_of(config):
        check_signal(stage)
    stage = broadcast(lambda: stage_of(config.stage, config.init, directory))
    config = dataclasses.replace(config, stage=stage)
    logging.info(
        '%s in %s: task %s, advantage %s, %d steps of %d problems with %d responses',
        *(config.name, directory, config.task.name, config.advantage.name),
        *(config.train.steps, config.train.num_prompts, config.sampling.num_rollouts),
    )
    with open_workdir(config, directory, accept_loss=accept_loss) as path:
        settings = configs.to_dict(config)
        remember_sources(path, config.model, settings, begun=has_begun(path))
        finished = from_intact(
            lambda: train(config, path, traced=traced), path / 'checkpoints'
        )
    if not finished:
        return EXIT_PREEMPTED
    logging.info('done: open %s', path / 'report.html')
    return 0


if __name__ == '__main__':
    cli.run(main)
