"""The configuration as frozen dataclasses, and the one way in from a ConfigDict.

``configs/*.py`` give an ``ml_collections.ConfigDict``; :func:`from_config_dict` turns
it into :class:`ExperimentConfig`. The dataclasses have no defaults of their own: a
forgotten, misspelt or mistyped key fails here, before a device is touched, and so
does a value that :mod:`passk_jax.config.checks` rejects. Nothing else in the package
sees a ConfigDict, and library functions take keywords or their own section, never the
whole. What a task, an estimator or a model family accepts is checked where it is made.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from passk_jax.config import checks
from passk_jax.config.ranges import (
    decay,
    fraction,
    not_empty,
    not_negative,
    one_of,
    positive,
    ranged,
)
from passk_jax.config.sampling_options import SamplingOptions, sampling_options

DTYPES = ('float32', 'bfloat16')


@dataclasses.dataclass(frozen=True)
class ArchConfig:
    """Sizes of a policy made from scratch; all 0 when ``model.source`` says them."""

    num_layers: int
    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_dim: int
    rope_theta: float
    norm_eps: float
    tie_embeddings: bool


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The policy network.

    Attributes:
        family: a name of ``models.families.FAMILIES``; ``''``: what the ``config.json``
            of ``source`` says, which it must agree with otherwise.
        source: Hugging Face directory or hub name that gives sizes, weights (if
            ``init.kind == 'hf'``) and tokenizer; ``''``: sizes from ``arch``.
        tokenizer: ``'characters'`` (built from the task's alphabet), ``'source'``
            (that of ``model.source``), or a Hugging Face directory or hub name.
        arch: sizes when ``source == ''``.
        param_dtype: dtype of the master weights and the optimizer.
        compute_dtype: dtype of the matrix products.
        remat: what the backward pass recomputes: ``'none'`` (no matrix product),
            ``'full'`` (each layer) or ``'attention'`` (each layer but its attention).
        attention: of whole sequences: ``'plain'``, ``'splash'`` (TPU), ``'cudnn'``
            (GPU) or ``'auto'`` (the platform's own where it can).
        head_chunk_tokens: tokens whose logits exist on a device at one time in the
            learner.
    """

    family: str
    source: str
    tokenizer: str = not_empty()
    arch: ArchConfig
    param_dtype: str = one_of(*DTYPES)
    compute_dtype: str = one_of(*DTYPES)
    remat: str = one_of('none', 'full', 'attention')
    attention: str = one_of('auto', 'plain', 'splash', 'cudnn')
    head_chunk_tokens: int = positive()


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Devices along each mesh axis; one of them may be -1: all that are left.

    Attributes:
        data: replicas of the parameters, which share the prompts.
        fsdp: shards of the parameters, which share the prompts too.
        rollout: replicas of the parameters, which share each prompt's rollouts.
        tensor: shards of heads, MLP and vocabulary.
    """

    data: int
    fsdp: int
    rollout: int
    tensor: int


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with a linear warm-up to a constant rate; ``max_grad_norm=0``: no clip."""

    learning_rate: float = positive()
    warmup_updates: int = not_negative()
    b1: float = decay()
    b2: float = decay()
    eps: float = positive()
    weight_decay: float = not_negative()
    max_grad_norm: float = not_negative()


@dataclasses.dataclass(frozen=True)
class WarmStartConfig:
    """Supervised training on the task's demonstrations before the RL.

    Attributes:
        steps: optimizer steps.
        batch_size: demonstrations a step.
        num_problems: training problems demonstrated; 0: all of them.
        demonstrations: the task's kind of demonstration.
        optimizer: of this stage alone.
    """

    steps: int = positive()
    batch_size: int = positive()
    num_problems: int = not_negative()
    demonstrations: str
    optimizer: OptimizerConfig


@dataclasses.dataclass(frozen=True)
class InitConfig:
    """Where the first policy comes from.

    Attributes:
        kind: ``'warm_start'``, ``'hf'`` (weights of ``model.source``),
            ``'checkpoint'`` (parameters of another run) or ``'scratch'``.
        checkpoint: the other run's workdir when ``kind == 'checkpoint'``, else ``''``.
        warm_start: used when ``kind == 'warm_start'``.
    """

    kind: str = one_of('warm_start', 'hf', 'checkpoint', 'scratch')
    checkpoint: str
    warm_start: WarmStartConfig


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """The task by name; its own parameters are checked by the task itself."""

    name: str = not_empty()
    params: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where problems are kept and how long a prompt may be.

    Attributes:
        dir: where prepared data sets live; ``''``: ``~/.cache/passk_jax``.
        max_prompt_tokens: longest prompt.
        overlong: ``'drop'`` (counted and reported) or ``'error'``.
    """

    dir: str
    max_prompt_tokens: int = positive()
    overlong: str = one_of('drop', 'error')


@dataclasses.dataclass(frozen=True)
class SamplingConfig(SamplingOptions):
    """Rollouts of the training steps.

    Attributes:
        num_rollouts: responses to each prompt.
        max_response_tokens: longest response, in evaluation too.
        max_cache_bytes: keys and values of prompts and responses on a device, in
            evaluation too. Rollouts that do not fit wait for others to end, which
            changes no token. 0: no limit.
    """

    num_rollouts: int = positive()
    max_response_tokens: int = positive()
    max_cache_bytes: int = not_negative()


@dataclasses.dataclass(frozen=True)
class AdvantageConfig:
    """The estimator by name and every parameter any estimator has.

    Attributes:
        name: a name of ``advantages.ESTIMATORS``.
        k: group size; also the k of the training metric ``pass_at_<k>``.
        parameters: every other key of the section, ``advantage.<parameter>``; the rows
            of ``ESTIMATORS`` declare them.
    """

    name: str = not_empty()
    k: int = positive()
    parameters: Mapping[str, Any] = dataclasses.field(metadata={'other_keys': True})


@dataclasses.dataclass(frozen=True)
class RewardConfig:
    """Reward transforms; ``flip_wrong`` is the paper's Noise Rewards fraction."""

    flip_wrong: float = fraction()


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """The policy-gradient loss.

    Attributes:
        clip_low: epsilon_low; the ratio is clipped below at ``1 - clip_low``.
        clip_high: epsilon_high.
        aggregation: ``'token'`` (DAPO) or ``'sequence'`` (GRPO) mean.
        entropy_coef: weight of the entropy bonus.
        kl_coef: weight of the KL to the initial policy.
        kl_estimator: ``'k1'``, ``'k2'`` or ``'k3'``.
        mask_truncated: leave responses that the limit cut off out of the loss.
        sampler_weight_cap: largest importance weight of a token, at least 1; 0: no
            weights. It is the learner's probability of the token over that of the
            distribution that it was drawn from, which differs by the sampler's
            arithmetic and, with top-p or top-k, by the mass that these keep.
    """

    clip_low: float = ranged('lie in (0, 1]', lambda x: 0 < x <= 1)
    clip_high: float = positive()
    aggregation: str = one_of('token', 'sequence')
    entropy_coef: float = not_negative()
    kl_coef: float = not_negative()
    kl_estimator: str = one_of('k1', 'k2', 'k3')
    mask_truncated: bool
    sampler_weight_cap: float = ranged(
        # Below 1 it would shrink weights that are right.
        'be 0 (no weights) or at least 1',
        lambda x: x == 0 or x >= 1,
    )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The loop.

    Attributes:
        steps: rollout batches.
        num_prompts: prompts a step.
        mini_batch_prompts: prompts an update; divides ``num_prompts``.
        micro_batch_prompts: prompts a forward and backward pass; divides
            ``mini_batch_prompts``; changes memory, and of the result only rounding.
        pack_sizes: sizes of a micro-batch that are compiled, at least 2, so that short
            responses share rows; 0: a row each. Changes time, of compiling too, and of
            the result only rounding.
        dynamic_sampling_rounds: draws more a step, at most, for problems in place of
            those without a signal; 0: every problem stays.
    """

    steps: int = positive()
    num_prompts: int = positive()
    mini_batch_prompts: int = positive()
    micro_batch_prompts: int = positive()
    pack_sizes: int = not_negative()
    dynamic_sampling_rounds: int = not_negative()


@dataclasses.dataclass(frozen=True)
class EvalConfig(SamplingOptions):
    """Evaluation, which samples with options of its own, as the paper does.

    Attributes:
        every: steps between evaluations on ``split``; 0: never.
        split: evaluated as training goes.
        final_split: evaluated at step 0 and at the end; ``''``: none.
        num_problems: of each split; 0: all.
        num_responses: to each problem.
        batch_size: problems sampled at one time.
        bootstrap_samples: resamples of the problems behind each interval.
    """

    every: int = not_negative()
    split: str
    final_split: str
    num_problems: int = not_negative()
    num_responses: int = positive()
    batch_size: int = positive()
    bootstrap_samples: int = positive()


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """``every`` steps a checkpoint, of which the newest ``keep`` stay."""

    every: int = positive()
    keep: int = positive()


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """What the run directory gets besides metrics.

    Attributes:
        rollouts_every: steps between dumps of a whole step's rollouts; 0: never.
        tensorboard: write TensorBoard files.
        wandb_project: Weights & Biases project; ``''``: none.
    """

    rollouts_every: int = not_negative()
    tensorboard: bool
    wandb_project: str


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """A whole experiment; see the sections."""

    name: str = not_empty()
    seed: int = ranged('lie in [0, 2**32)', lambda x: 0 <= x < 2**32)
    model: ModelConfig
    mesh: MeshConfig
    init: InitConfig
    task: TaskConfig
    data: DataConfig
    sampling: SamplingConfig
    advantage: AdvantageConfig
    reward: RewardConfig
    loss: LossConfig
    optimizer: OptimizerConfig
    train: TrainConfig
    eval: EvalConfig
    checkpoint: CheckpointConfig
    log: LogConfig


def from_config_dict(config: ConfigDict) -> ExperimentConfig:
    """Turns a ConfigDict into the checked, frozen configuration.

    Raises:
        ValueError: an unknown, missing, mistyped or impossible value; the message
            names the dotted key.
    """
    return _checked(checks.build(ExperimentConfig, config.to_dict()))


def from_json_dict(values: Mapping[str, Any]) -> ExperimentConfig:
    """Reads what :func:`to_json` wrote; the result equals the one written.

    Raises:
        ValueError: as :func:`from_config_dict`.
    """
    return _checked(checks.build(ExperimentConfig, _lists_to_tuples(values)))


def with_new_options(values: Any) -> Any:
    """A saved configuration with the sampler's options that it does not know, off."""
    if not isinstance(values, Mapping):
        return values
    off = dataclasses.asdict(sampling_options())
    sections = {'sampling', 'eval'} & values.keys()
    known = {name: values[name] for name in sections if isinstance(values[name], dict)}
    return {**values, **{name: off | section for name, section in known.items()}}


def to_dict(config: ExperimentConfig) -> dict[str, Any]:
    """The configuration as nested dicts, which :func:`from_json_dict` reads."""
    values = dataclasses.asdict(config)
    values['advantage'] |= values['advantage'].pop('parameters')
    return values


def to_json(config: ExperimentConfig) -> str:
    """The configuration as JSON text, in the order of the fields."""
    return json.dumps(to_dict(config), indent=2) + '\n'


def _checked(config: ExperimentConfig) -> ExperimentConfig:
    checks.check(checks.flatten(to_dict(config)))
    return config


def _lists_to_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _lists_to_tuples(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(_lists_to_tuples(v) for v in value)
    return value
