"""The configuration: one frozen dataclass for each section.

They have no defaults, so a forgotten key is an error. Library functions take keywords
or their section, never the whole configuration.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from passk_jax.config.evaluation_config import CheckpointConfig, EvalConfig
from passk_jax.config.learning_config import LossConfig, OptimizerConfig
from passk_jax.config.model_config import ModelConfig
from passk_jax.config.ranges import (
    count,
    fraction,
    iso_date,
    not_empty,
    one_of,
    ranged,
    section,
)
from passk_jax.config.sampling_options import SamplingOptions

# checks.py rejects 0 and negative sizes, except for one -1 in a mesh.
_AXIS = ('be at most 10**6', lambda x: x <= 10**6)


@section
class MeshConfig:
    """Devices along each mesh axis; one axis may be -1: all remaining devices.

    Attributes:
        data: replicas of the parameters, among which the prompts are split.
        fsdp: shards of the parameters, among which the prompts are split too.
        rollout: replicas of the parameters that split each prompt's rollouts.
        tensor: shards of heads, MLP and vocabulary.
        decode_tensor: ``tensor`` in sampling; must divide the key/value heads. A larger
            value takes devices from 'rollout', then from 'fsdp'; a smaller one gives
            devices to 'rollout' (``models/decode_mesh.py``). With smaller shards, a
            device reads fewer weights for every token. 0: the mesh of training.
    """

    data: int = ranged(*_AXIS)
    fsdp: int = ranged(*_AXIS)
    rollout: int = ranged(*_AXIS)
    tensor: int = ranged(*_AXIS)
    decode_tensor: int = count(0, 10**6, off=0)

    @property
    def sizes(self) -> dict[str, Any]:
        """The size of each axis, by name."""
        return {
            'data': self.data,
            'fsdp': self.fsdp,
            'rollout': self.rollout,
            'tensor': self.tensor,
        }


@section
class WarmStartConfig:
    """Supervised training on the task's demonstrations before the RL.

    Attributes:
        steps: optimizer steps.
        batch_size: demonstrations per step.
        num_problems: training problems to demonstrate (``data.subset``); 0: all.
        demonstrations: one of the task's kinds of demonstration.
        optimizer: the optimizer of this stage only.
    """

    steps: int = count(1)
    batch_size: int = count(1)
    num_problems: int = count(0)
    demonstrations: str
    optimizer: OptimizerConfig


@section
class InitConfig:
    """Where the first policy comes from.

    Attributes:
        kind: ``'warm_start'``, ``'hf'`` (weights of ``model.source``),
            ``'checkpoint'`` (parameters of another run) or ``'scratch'``.
        checkpoint: the other run's workdir if ``kind == 'checkpoint'``, else ``''``;
            its newest checkpoint is read.
        warm_start: read if ``kind == 'warm_start'``.
    """

    kind: str = one_of('warm_start', 'hf', 'checkpoint', 'scratch')
    checkpoint: str
    warm_start: WarmStartConfig


@section
class TaskConfig:
    """The task's name, and its parameters, which the task checks.

    Attributes:
        name: a key of ``tasks.TASKS``, or ``file.py:Class``.
        params: a value for every field of the task's ``Params``.
    """

    name: str = not_empty()
    params: Mapping[str, Any]


@section
class DataConfig:
    """Where problems are stored, and how they become prompts.

    Attributes:
        dir: the directory of all data sets; ``''``: ``~/.cache/passk_jax``.
        max_prompt_tokens: the most tokens of a prompt.
        overlong: ``'drop'`` (longer prompts are counted and reported) or ``'error'``.
        system_prompt: the system's turn before every problem; ``''``: none, or the chat
            template's default.
        chat_template_kwargs: switches of the chat template, such as
            ``{'enable_thinking': False}``.
        chat_date: today's date for the chat template, in every prompt of the run.
        few_shot: examples before every problem, as turns of its chat: alternating
            texts of the user and answers.
        instruction: the prompt's text about the form of the answer; ``'task'``: the
            task's text; ``''``: none.
        max_picture_pixels: a larger picture is made smaller; 0: the limit of
            ``model.source``.
        blank_pictures: whether all pictures are black, for a baseline that sees
            nothing.
    """

    dir: str
    max_prompt_tokens: int = count(1)
    overlong: Literal['drop', 'error'] = one_of('drop', 'error')
    system_prompt: str = dataclasses.field(metadata={'off': ''})
    chat_template_kwargs: Mapping[str, Any] = dataclasses.field(metadata={'off': {}})
    chat_date: str = iso_date(off='2024-07-26')
    few_shot: tuple[str, ...] = ranged(
        'be pairs of texts that are not empty',
        lambda texts: len(texts) % 2 == 0 and all(texts),
        off=(),
    )
    instruction: str = dataclasses.field(metadata={'off': 'task'})
    max_picture_pixels: int = count(0, off=0)
    blank_pictures: bool = dataclasses.field(metadata={'off': False})


@section
class SamplingConfig(SamplingOptions):
    """The rollouts of training steps.

    Attributes:
        num_rollouts: responses to each prompt.
        max_response_tokens: the most tokens of a response, also in evaluation.
        max_cache_bytes: limit of a device's KV cache, also in evaluation. Rollouts that
            do not fit wait for others to end, which changes no token. 0: no limit.
        cache_dtype: ``'int8'`` holds keys and values in half the bytes of bfloat16
            (``models/quantized.py``). Responses are then drawn from another
            distribution, which ``loss.sampler_weight_cap`` corrects. Evaluations do
            not use it. ``''``: the dtype of ``model.compute_dtype``.
    """

    num_rollouts: int = count(1)
    max_response_tokens: int = count(1)
    max_cache_bytes: int = count(0, 10**15)
    cache_dtype: str = one_of('', 'int8', off='')


@section
class AdvantageConfig:
    """The estimator by name, and the parameters of all estimators.

    Attributes:
        name: a key of ``advantages.ESTIMATORS``, or ``file.py:function``.
        k: group size; also the k of the training metric ``pass_at_<k>``, if N is not
            smaller: then it is N.
        match_weight_at: success probability at which the advantages are scaled to
            the same weight as those of ``pass_at_1``; 0: no scaling.
        parameters: every other key of the section, ``advantage.<parameter>``, as the
            rows of ``ESTIMATORS`` declare.
    """

    name: str = not_empty()
    k: int = count(1)
    match_weight_at: float = fraction(off=0.0)
    parameters: Mapping[str, Any] = dataclasses.field(metadata={'other_keys': True})


@section
class VerifierConfig:
    """Requirements on the problems, before any response is verified.

    Attributes:
        max_unparsed_golds: the largest share of a file's golds (right answers) that the
            verifier cannot parse. No response can equal such a gold.
    """

    max_unparsed_golds: float = fraction()


@section
class RewardConfig:
    """Reward transforms; ``flip_wrong`` is the paper's fraction of Noise Rewards."""

    flip_wrong: float = fraction()


@section
class TrainConfig:
    """The training loop.

    Attributes:
        steps: number of rollout batches.
        num_prompts: prompts per step.
        mini_batch_prompts: prompts per update; divides ``num_prompts``.
        epochs: how often a step uses its rollout batch, with the same mini-batches in
            the same order. The ratio's old policy is always the one before the step.
        micro_batch_prompts: prompts per forward and backward pass; divides
            ``mini_batch_prompts``. It affects memory and the rounding of the result.
        micro_batch_rollouts: rollouts of each of these prompts per pass; divides
            ``sampling.num_rollouts``; 0: all. A part of the rollouts needs less memory,
            but every pass computes the prompt again.
        packing: ``'rows'``: a pass has rows of whole responses to any prompts, spread
            over all devices, and responses without a gradient get no backward pass;
            ``'prompts'``: a pass has prompts with their rollouts. It affects running
            and compile time, and the rounding of the result.
        pack_sizes: with ``packing='prompts'``, the number of compiled micro-batch
            sizes, at least 2, so that short responses share rows; 0: a row per
            response.
        scoped_vmem_kib: KiB of a TPU's vector memory that products of the train step
            may use; 0: the compiler's default; -1: what suits the chip
            (``runtime/compiler_options.py``). It affects running and compile time.
        dynamic_sampling_rounds: the most extra draws of a step to replace problems
            without a signal; 0: every problem stays.
        follow_difficulty: how strongly the draw of problems follows the estimated
            variance of their verdicts (``passk_jax.data.difficulty``), below 1; 0: not
            at all, problems come in epochs.
    """

    steps: int = count(1)
    num_prompts: int = count(1)
    mini_batch_prompts: int = count(1)
    epochs: int = count(1, 1000, off=1)
    micro_batch_prompts: int = count(1)
    micro_batch_rollouts: int = count(0, off=0)
    packing: str = one_of('rows', 'prompts', off='prompts')
    pack_sizes: int = count(0, 100)
    scoped_vmem_kib: int = count(-1, 2**20, off=0)
    dynamic_sampling_rounds: int = count(0)
    follow_difficulty: float = ranged('lie in [0, 1)', lambda x: 0 <= x < 1, off=0.0)

    def rollout_parts(self, num_rollouts: int) -> int:
        """Returns the number of parts of a prompt's rollouts, one for each pass."""
        return num_rollouts // (self.micro_batch_rollouts or num_rollouts)

    @property
    def updates_of_a_step(self) -> int:
        """The number of updates of a step."""
        return self.epochs * self.num_prompts // self.mini_batch_prompts

    @property
    def num_updates(self) -> int:
        """The number of updates of the run."""
        return self.steps * self.updates_of_a_step


@section
class LogConfig:
    """What a run logs besides metrics.

    Attributes:
        rollouts_every: steps between dumps of a step's rollouts; 0: never.
        diagnostics_every: steps between diagnoses of a step (``diagnostics.jsonl``);
            0: never. They do not change training. A diagnosis costs a forward pass of
            the batch and, for each of up to four estimators, a backward pass and the
            memory of three gradients.
        difficulty_bins: number of bins into which a diagnosis divides the gradient: by
            the share of right responses to a problem, and separately for right and
            wrong responses; 0: none. A bin costs as much as two more estimators.
        tensorboard: whether to write TensorBoard files.
        wandb_project: Weights & Biases project; ``''``: none.
        trackio_project: trackio project; ``''``: none.
        aliases: also shows the metrics of steps under the names of ``'trl'`` or
            ``'verl'`` (runs/aliases.py); ``''``: only under ours.
        watchdog_seconds: time limit of a phase, including compilation: for example
            decoding, a part of an evaluation, a step of a warm start or reading the
            first policy; 0: no limit. At the limit, all processes write their stacks
            and exit with status 44, for a restart.
        heartbeat_seconds: if a process is in one phase for this long, process 0 logs
            the phase of each process, and repeats this; 0: never.
    """

    rollouts_every: int = count(0)
    diagnostics_every: int = count(0, off=0)
    difficulty_bins: int = count(0, 1000, off=0)
    tensorboard: bool
    wandb_project: str
    trackio_project: str = dataclasses.field(metadata={'off': ''})
    aliases: str = one_of('', 'trl', 'verl', off='')
    watchdog_seconds: int = count(0, off=0)
    heartbeat_seconds: int = count(0, off=0)


@section
class ExperimentConfig:
    """A whole experiment; see the sections.

    Attributes:
        seed: with the stage, the seed of every draw.
        stage: number of earlier stages. Each stage draws its own problems, tokens and
            noise. -1: one more than the run of ``init.checkpoint``, or 0 without it; a
            run directory keeps the number.
        stages: a section for each later stage of this run; see ``config.stages``.
    """

    name: str = not_empty()
    seed: int = ranged('lie in [0, 2**32)', lambda x: 0 <= x < 2**32)
    stage: int = ranged('lie in [-1, 2**24)', lambda x: -1 <= x < 2**24, off=0)
    stages: Mapping[str, Any] = dataclasses.field(metadata={'off': {}})
    model: ModelConfig
    mesh: MeshConfig
    init: InitConfig
    task: TaskConfig
    data: DataConfig
    sampling: SamplingConfig
    advantage: AdvantageConfig
    verifier: VerifierConfig = dataclasses.field(
        metadata={'off': {'max_unparsed_golds': 1.0}}
    )
    reward: RewardConfig
    loss: LossConfig
    optimizer: OptimizerConfig
    train: TrainConfig
    eval: EvalConfig
    checkpoint: CheckpointConfig
    log: LogConfig


def to_dict(config: ExperimentConfig) -> dict[str, Any]:
    """Converts the configuration to nested dicts, as in a file of ``configs/``."""
    values = dataclasses.asdict(config)
    values['advantage'] |= values['advantage'].pop('parameters')
    return values
