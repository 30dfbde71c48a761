"""Checks of the whole configuration, before a command starts its work.

:func:`check_names` and :func:`check_evaluation` use no device; :func:`check_signal`
does. :func:`warn_of_settings` only warns. :func:`open_workdir` prepares the run
directory.
"""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence

from absl import logging
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.advantages import configured, make
from passk_jax.advantages.configured import unscaled_estimator
from passk_jax.config import ExperimentConfig, Stage, errors_of, stages_of, to_json
from passk_jax.config.checks import check_several_rollouts
from passk_jax.data.batches import EvaluationBatches
from passk_jax.errors import InputError
from passk_jax.evaluation.evaluate import category_metric_names, metric_names
from passk_jax.initial.params import ONLY_ROUNDING
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.policy import Policy
from passk_jax.runs.checkpoints import saved_steps
from passk_jax.runs.commits import newest_meta
from passk_jax.runs.directory import prepare_workdir
from passk_jax.runs.metric_writer import GROUPS
from passk_jax.runs.records import Lines, changed_records, missing_records
from passk_jax.runs.sources import missing_sources
from passk_jax.runs.trackers import import_packages
from passk_jax.setup import capacity
from passk_jax.setup.model import converts_cache, from_scratch
from passk_jax.tasks import make_task, require
from passk_jax.tasks.abilities import Demonstrations

LARGE_RATE = 3e-4
"""Warm starts with a larger learning rate suit only a policy from scratch."""
# In bytes: some file systems and services do not allow longer names.
_LONGEST_NAME = 200


def splits_due(config: ExperimentConfig, step: int) -> tuple[str, ...]:
    """Returns the splits to evaluate before this step."""
    return config.eval.splits_due(step, last=config.train.steps)


def may_differ(config: ExperimentConfig) -> tuple[str, ...]:
    """Returns the keys that a resumed run may change; see :func:`prepare_workdir`."""
    # None of these changes a result beyond rounding: the mesh, checkpoints, saved
    # texts, the watchdog, the limit on unparsed golds and the parameters of other
    # estimators.
    names = {stage.config.advantage.name for stage in stages_of(config)}
    read = [p for name in names for p in make.estimator_parameters(name)]
    unread = [f'advantage.{p}' for p in config.advantage.parameters if p not in read]
    watching = 'log.watchdog_seconds', 'log.heartbeat_seconds'
    checking = 'verifier.max_unparsed_golds'
    free = 'mesh.', 'checkpoint.', 'eval.kept_responses', 'eval.batch_size'
    free += checking, *watching
    rounding = set(ONLY_ROUNDING)
    if config.log.diagnostics_every:
        # Diagnostics compare the gradients of micro-batches.
        rounding -= {'train.micro_batch_prompts'}
    return (*free, *sorted(rounding), *unread)


def may_grow(config: ExperimentConfig) -> dict[str, str]:
    """Returns ``train.steps``, which a resumed run may raise, or why it may not.

    The longer run equals a run that had this many steps from the start. It drops
    evaluations that were due only because the old last step was the last.
    """
    longer = dataclasses.replace(
        config, train=dataclasses.replace(config.train, steps=config.train.steps + 1)
    )
    for now, then in zip(stages_of(config), stages_of(longer), strict=True):
        schedule = now.config.optimizer.schedule
        if schedule != 'constant' and now.num_updates != then.num_updates:
            reason = f'optimizer.schedule={schedule!r} spans the updates of all steps'
            return {'train.steps': reason}
    return {'train.steps': ''}


def open_workdir(
    config: ExperimentConfig, workdir: str | pathlib.Path, *, accept_loss: bool = False
) -> contextlib.AbstractContextManager[pathlib.Path]:
    """Prepares the run directory of this experiment; see :func:`prepare_workdir`."""

    def missing(path: pathlib.Path) -> list[str]:
        # initial.json records the step of the checkpoint that this run starts from.
        noted = config.init.kind != 'checkpoint' or (path / 'initial.json').exists()
        absent, lines = [] if noted else ['initial.json'], Lines(path)
        absent += missing_sources(path, config.model) + missing_records(
            lines,
            resume_step=max(saved_steps(path / 'checkpoints'), default=None),
            splits_due=functools.partial(splits_due, config),
            rollouts_every=config.log.rollouts_every,
            diagnostics_every=config.log.diagnostics_every,
        )
        step, meta = newest_meta(path / 'checkpoints')
        changed = changed_records(lines, step=step, digests=meta.get('digests', {}))
        # ``absent`` already names the files with missing lines.
        names = {entry.partition(':')[0] for entry in absent}
        return absent + [x for x in changed if x.partition(' ')[0] not in names]

    return prepare_workdir(
        workdir,
        to_json(config),
        may_differ=may_differ(config),
        may_grow=may_grow(config),
        missing=missing,
        accept_loss=accept_loss,
    )


def check_names(config: ExperimentConfig) -> None:
    """Checks the configuration's names and sizes, before any directory or device.

    Raises:
        InputError: a run name that cannot be used, an unknown task, split,
            demonstration, family, estimator or metric, a parameter that the estimator
            does not accept, model sizes that do not fit together, a missing package, or
            more responses than this host can hold.
    """
    check_run_name(config.name)
    for stage in stages_of(config):
        with errors_of(stage.name):
            num_rollouts = stage.config.sampling.num_rollouts
            unscaled_estimator(stage.config.advantage, num_rollouts=num_rollouts)
    import_packages(config.log)
    task = make_task(config.task.name, config.task.params)
    _check_splits(splits_due(config, 0), task.splits)
    if config.init.kind == 'warm_start':
        demonstrated_task = require(
            task, Demonstrations, needed_by="init.kind='warm_start'"
        )
        demonstrations = config.init.warm_start.demonstrations
        if demonstrations not in demonstrated_task.demonstrations:
            kinds = list(demonstrated_task.demonstrations)
            raise InputError(f'init.warm_start.{demonstrations=} is none of {kinds}')
    if config.model.family and config.model.family not in FAMILIES:
        raise InputError(f'{config.model.family=} is none of {sorted(FAMILIES)}')
    if not config.model.source:
        # The sizes do not depend on the vocabulary, and a tokenizer loads slowly.
        from_scratch(config.model, vocab_size=2)
    sizes = {
        'train.num_prompts': config.train.num_prompts,
        'sampling.num_rollouts': config.sampling.num_rollouts,
    }
    tokens = config.sampling.max_response_tokens
    capacity.check_responses(sizes, max_response_tokens=tokens)
    check_evaluation(config)
    _check_best(config)


def _check_splits(splits: Sequence[str], valid: Sequence[str]) -> None:
    for split in splits:
        if split not in valid:
            raise InputError(f'{split=} to evaluate is none of {list(valid)}')
        if split in GROUPS:
            raise InputError(
                f'{split=} to evaluate in a run would mix its metrics with those that '
                f'every run writes, {GROUPS}: evaluate another split, and this one '
                f'afterwards: python -m passk_jax.evaluate --split={split}'
            )


def check_run_name(name: str) -> None:
    """Raises InputError unless ``name`` can name a directory, a chart and a log."""
    if (
        not name.isprintable()
        or name != name.strip()
        or set(name) & {'/', '\\'}
        or name in ('.', '..')
        or not 1 <= len(name.encode(errors='replace')) <= _LONGEST_NAME
    ):
        raise InputError(
            f'{name=} must be a name and no path: at most {_LONGEST_NAME} bytes that '
            'can be printed, without slashes and without blanks at its ends'
        )


def _check_best(config: ExperimentConfig) -> None:
    """Checks the metric that selects the best checkpoint.

    :func:`check_best_category` checks those of a category, which the problems have.
    """
    best, metrics = config.checkpoint.keep_best, metric_names(config.eval.num_responses)
    metric = best.partition('/')[2]
    if best and '/' not in metric and metric not in metrics:
        raise InputError(
            f'checkpoint.keep_best={best!r}: {metric!r} is none of {sorted(metrics)}, '
            'and no metric of a category, for example 5x5/pass_at_1'
        )


def check_best_category(
    config: ExperimentConfig, splits: Mapping[str, EvaluationBatches]
) -> None:
    """Checks that the split has the category whose metric selects the best checkpoint.

    Raises InputError unless it has. ``splits`` are those that the run evaluates.
    """
    best = config.checkpoint.keep_best
    split, _, metric = best.partition('/')
    if '/' not in metric:
        return
    tokenized = splits[split].tokenized
    problems = (tokenized.source[int(index)] for index in tokenized.indices)
    categories = dict.fromkeys(problem.category for problem in problems)
    names = category_metric_names(config.eval.num_responses, categories)
    metrics = [f'{split}/{name}' for name in names]
    if best not in metrics:
        raise InputError(f'checkpoint.keep_best={best!r} is none of {metrics}')


def check_evaluation(config: ExperimentConfig) -> None:
    """Checks that this host can hold the responses to an evaluation batch.

    Raises:
        InputError: they do not fit.
    """
    # 0 means all problems, which are at least one.
    size = config.eval.batch_size or config.eval.num_problems or 1
    sizes = {'eval.batch_size': size, 'eval.num_responses': config.eval.num_responses}
    tokens = config.sampling.max_response_tokens
    capacity.check_responses(sizes, max_response_tokens=tokens)


def check_signal(stage: Stage) -> None:
    """Checks that a stage can have advantages other than 0; uses a device.

    Raises:
        InputError: every advantage of the stage is 0, or no scale matches
            ``advantage.match_weight_at``.
    """
    num_rollouts = stage.config.sampling.num_rollouts
    with errors_of(stage.name):
        configured.check_signal(stage.config.advantage, num_rollouts=num_rollouts)


def warn_of_settings(config: ExperimentConfig) -> None:
    """Warns of settings that have an unexpected effect, and logs where stages begin."""
    if config.stages:
        borders = {stage.name: stage.start for stage in stages_of(config)[1:]}
        logging.info(
            'stages begin at %s of train.steps=%d, and changing that moves none',
            ', '.join(f'{start} ({name})' for name, start in borders.items()),
            config.train.steps,
        )
    rate = config.init.warm_start.optimizer.learning_rate
    if config.init.kind == 'warm_start' and config.model.source and rate > LARGE_RATE:
        logging.warning(
            'init.warm_start.optimizer.learning_rate=%g is for a policy from scratch, '
            'and would make a published model forget what it knows: 5e-5 over 16 steps '
            'of 8 demonstrations teaches the form of an answer',
            rate,
        )
    stages = [stage.config for stage in stages_of(config)]
    if any(s.sampling.truncates and not s.loss.sampler_weight_cap for s in stages):
        logging.warning(
            'sampling.top_p, top_k or min_p cuts the distribution of the tokens, but '
            'the loss treats them as draws from all of it: loss.sampler_weight_cap=2 '
            'corrects this by importance weights'
        )
    unweighted = not all(s.loss.sampler_weight_cap for s in stages)
    if config.sampling.cache_dtype and unweighted:
        logging.warning(
            'sampling.cache_dtype=%r draws tokens from another distribution than the '
            "learner's: loss.sampler_weight_cap=2 corrects this by importance weights",
            config.sampling.cache_dtype,
        )
    if config.model.param_dtype == 'bfloat16':
        logging.warning(
            'model.param_dtype=bfloat16 rounds most updates away: 2 % of the weights '
            'moved in 100 updates of which float32 moved all; '
            'model.compute_dtype=bfloat16 needs no such weights'
        )
    _warn_of_warm_ups(config)
    losses = [stage.loss for stage in stages]
    k1 = [loss.kl_coef for loss in losses if loss.kl_estimator == 'k1' and loss.kl_coef]
    if k1:
        logging.warning(
            'loss.kl_estimator=k1 has no gradient in expectation: loss.kl_coef=%g only '
            'adds noise, and does not hold the policy near the first; use k2 or k3',
            k1[0],
        )


def _warn_of_warm_ups(config: ExperimentConfig) -> None:
    """Warns of learning rates that end before they have their value."""
    rates = [
        (f'stages.{stage.name}.' if stage.name else '', stage.config, stage.num_updates)
        for stage in stages_of(config)
    ]
    warm_ups = [(f'{x}optimizer', c.optimizer.warmup_updates, n) for x, c, n in rates]
    if config.init.kind == 'warm_start':
        first = config.init.warm_start
        number = first.optimizer.warmup_updates
        warm_ups.append(('init.warm_start.optimizer', number, first.steps))
    for section, number, updates in warm_ups:
        if number > updates:
            logging.warning(
                '%s.warmup_updates=%d is more than the %d updates there are: the '
                'learning rate ends at %.0f %% of its value',
                *(section, number, updates, 100 * updates / number),
            )


def warn_of_repeated_work(
    config: ExperimentConfig, mesh: Mesh, decode_mesh: Mesh
) -> None:
    """Warns of batches that the meshes of training and of sampling do not divide."""
    prompts = {
        'train.num_prompts': config.train.num_prompts,
        'train.micro_batch_prompts': config.train.micro_batch_prompts,
    }
    if config.init.kind == 'warm_start':
        prompts['init.warm_start.batch_size'] = config.init.warm_start.batch_size
    rollouts = {'sampling.num_rollouts': config.sampling.num_rollouts}
    sampled = {'train.num_prompts': config.train.num_prompts}
    if config.eval.batch_size:
        sampled['eval.batch_size'] = config.eval.batch_size
    responses = rollouts | {'eval.num_responses': config.eval.num_responses}
    if decode_mesh == mesh:
        prompts, rollouts = prompts | sampled, dict(responses)
    if size := config.train.micro_batch_rollouts:
        rollouts['train.micro_batch_rollouts'] = size
    sharding.warn_of_repeated_work(mesh, batch=prompts, rollouts=rollouts)
    if decode_mesh != mesh:
        place = "'{}' of the mesh of sampling"
        sharding.warn_of_repeated_work(
            decode_mesh, place=place, batch=sampled, rollouts=responses
        )


def warn_of_conversion(policy: Policy) -> None:
    """Warns if decoding converts all keys and values from int8 for every token."""
    if converts_cache(policy):
        logging.warning(
            "sampling.cache_dtype='int8' saves memory and not time here: with "
            'model.attention=%r every token converts all keys and values first, which '
            'on a CPU made attention to 2,500 tokens 4 times slower; only splash, '
            'for TPUs, converts on the chip',
            policy.arch.attention,
        )


def check_draws(config: ExperimentConfig, *, num_tokens: int) -> None:
    """Warns if responses of an evaluation are all equal.

    Raises InputError if the rollouts are. The checks of the configuration do not know
    the size of the vocabulary.
    """
    for stage in stages_of(config):
        sampling = stage.config.sampling
        if name := sampling.one_token_by(num_tokens):
            raise InputError(
                f'sampling.{name}={getattr(sampling, name)} takes only the most '
                f'probable of {num_tokens} tokens: greedy rollouts are all equal'
            )
    name, count = config.eval.one_token_by(num_tokens), config.eval.num_responses
    if name and count > 1:
        logging.warning(
            'eval.%s=%g is greedy: all eval.num_responses=%d responses to a problem '
            'are equal, and every pass@k is pass@1',
            *(name, getattr(config.eval, name), count),
        )


def check_packing(config: ExperimentConfig, mesh: Mesh) -> None:
    """Raises InputError if a device has too few responses to a problem to pack them.

    The checks of the configuration cannot know this, because an axis size may depend on
    the number of devices.
    """
    if sizes := config.train.pack_sizes:
        num_rollouts = config.sampling.num_rollouts
        check_several_rollouts(
            sizes,
            num_rollouts=config.train.micro_batch_rollouts or num_rollouts,
            shares=mesh.shape['rollout'],
        )
