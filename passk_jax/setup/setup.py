"""Everything that a command builds from a configuration before its main work.

Checks that can fail early come first: names and sizes, then files, then devices.
:class:`Setup` holds what stays constant in a run. Only commands and passk_jax/setup
receive it, or the whole configuration; other functions receive the parts they need.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Sequence

import jax
from absl import logging
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.advantages.configured import configured_estimator
from passk_jax.config import (
    DataConfig,
    ExperimentConfig,
    MeshConfig,
    SamplingOptions,
    Stage,
    TaskConfig,
    stage_at,
    stages_of,
)
from passk_jax.data.batches import (
    Batches,
    EvaluationBatches,
    TokenizedProblems,
    evaluation_batches,
    make_batches,
    read_problems,
    subset,
)
from passk_jax.data.pictures import PictureReader, split_at_pictures
from passk_jax.errors import InputError
from passk_jax.evaluation.evaluate import Evaluate
from passk_jax.initial.params import add_adapters, initial_params
from passk_jax.initial.warm_start import WarmStartData
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.optimizer import Optimizer
from passk_jax.learning.update import Update
from passk_jax.models import decode_mesh as decode_meshes
from passk_jax.models import policy as policies
from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.arch import Arch
from passk_jax.models.frozen import split_weights
from passk_jax.models.policy import Params, Policy
from passk_jax.models.tokenizer import Tokenizer
from passk_jax.rollouts.dynamic_sampling import Select
from passk_jax.rollouts.estimate import Estimate
from passk_jax.rollouts.remember import Remember
from passk_jax.rollouts.sample import Sample
from passk_jax.rollouts.verify import Verify
from passk_jax.sampling import Purpose, RunKeys
from passk_jax.setup import capacity, checks, evaluation, memory, model
from passk_jax.setup.golds import check_golds
from passk_jax.tasks import Task, make_task, weights_of
from passk_jax.tasks.abilities import LengthCheck
from passk_jax.tasks.task import check_problems
from passk_jax.types import Problem, Turn


@dataclasses.dataclass(frozen=True)
class Setup:
    """The constant parts of a run.

    Attributes:
        config: the whole configuration.
        task: the source of problems, and their verifier.
        tokenizer: a transformers tokenizer.
        stop_tokens: ids that end a response; the first also ends a demonstration.
        policy: the policy without its parameters.
        mesh: the device mesh.
        decode_mesh: the same devices, as sampling splits them.
        training: the training problems read so far, by the settings that select them.
    """

    config: ExperimentConfig
    task: Task
    tokenizer: Tokenizer
    stop_tokens: tuple[int, ...]
    policy: Policy
    mesh: Mesh
    decode_mesh: Mesh
    training: dict[str, TokenizedProblems] = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )

    def select_stage(self, stage: Stage) -> 'Setup':
        """Returns this setup with the configuration of a stage."""
        return dataclasses.replace(self, config=stage.config)

    def at(self, step: int) -> 'Setup':
        """Returns this setup with the configuration of the stage of a step."""
        return self.select_stage(stage_at(stages_of(self.config), step))

    def on_task(self, task: TaskConfig, data: DataConfig) -> 'Setup':
        """Returns this setup with another task and the prompt settings of ``data``.

        Raises:
            InputError: the task cannot be made, or exceeds the policy's limits.
        """
        data = dataclasses.replace(
            self.config.data,
            dir=data.dir or self.config.data.dir,
            max_prompt_tokens=data.max_prompt_tokens,
            overlong=data.overlong,
            few_shot=data.few_shot,
            instruction=data.instruction,
        )
        config = dataclasses.replace(self.config, task=task, data=data)
        model.check_positions(config.model, config.data, config.sampling)
        memory.check_cache(config, self.policy, self.decode_mesh)
        return dataclasses.replace(self, config=config, task=_task(config))

    def encode(self, problem: Problem) -> list[int]:
        """Returns the tokens of a problem's prompt."""
        data, text = self.config.data, problem.prompt
        if data.instruction != 'task':
            text = self.task.replace_instruction(problem, data.instruction)
        examples = zip(itertools.cycle(('user', 'assistant')), data.few_shot)
        by_system = [turn for turn in problem.turns if turn.role == 'system']
        spoken = [turn for turn in problem.turns if turn.role != 'system']
        reads = self.policy.arch.vision is not None
        parts = split_at_pictures(problem, text, reads=reads)
        tokens = tokenizers.encode_prompt(
            self.tokenizer,
            parts if problem.images else text,
            turns=(*by_system, *itertools.starmap(Turn, examples), *spoken),
            system_prompt=data.system_prompt,
            template_kwargs=data.chat_template_kwargs,
            date=data.chat_date,
        )
        rows = self.policy.arch.vocab_size
        if unread := [token for token in tokens if token >= rows]:
            raise InputError(
                f'the prompt has {self.tokenizer.decode(unread[:1])!r}, token '
                f'{unread[0]}, and the model has only {rows} rows for tokens'
            )
        return tokens

    @property
    def keys(self) -> RunKeys:
        """The random keys of this run, or of its current stage."""
        return RunKeys(self.config.seed, self.config.stage)

    def train_batches(self) -> Batches:
        """Makes the training batches; ``batches[step]`` is a pure function of step."""
        return make_batches(
            self.read_training(),
            num_prompts=self.config.train.num_prompts,
            seed=self.keys.order(Purpose.ROLLOUTS),
            weights=weights_of(self.task),
        )

    def read_training(self, num_problems: int = 0) -> TokenizedProblems:
        """Reads the training problems, or a subset; all stages share the result."""
        data, name = self.config.data, 'init.warm_start.num_problems'
        settings = repr((self.config.task, data, num_problems))
        if settings not in self.training:
            self.training[settings] = read_problems(
                subset(self.problems('train'), num_problems, name=name),
                self.encode,
                max_prompt_tokens=data.max_prompt_tokens,
                overlong=data.overlong,
                reader=self.reader,
            )
        return self.training[settings]

    @functools.cached_property
    def reader(self) -> PictureReader:
        """Reads the pictures of problems, if the policy does."""
        return model.make_reader(self.config.model, self.config.data, self.policy.arch)

    def problems(self, split: str) -> Sequence[Problem]:
        """Returns the problems of a split.

        Raises InputError if the split is unknown or empty, or if too many golds cannot
        be parsed.
        """
        problems = self.task.source(split, data_dir=self.config.data.dir)
        check_problems(self.task, problems)
        max_share = self.config.verifier.max_unparsed_golds
        check_golds(self.task, problems, split=split, max_share=max_share)
        return problems

    def evaluation_batches(
        self, split: str, problems: Sequence[Problem] | None = None
    ) -> EvaluationBatches:
        """Makes batches of a split's problems (all, or ``problems``), in order.

        Raises:
            InputError: the split is unknown or empty.
        """
        data = self.config.data
        return evaluation_batches(
            self.problems(split) if problems is None else problems,
            self.encode,
            batch_size=functools.partial(
                evaluation.batch_size, self.config, self.mesh, self.decode_mesh
            ),
            num_problems=self.config.eval.num_problems,
            max_prompt_tokens=data.max_prompt_tokens,
            overlong=data.overlong,
            reader=self.reader,
        )

    def demonstrations(self) -> WarmStartData:
        """Returns the demonstrations for a warm start."""
        return WarmStartData(
            task=self.task,
            read=self.read_training,
            tokenizer=self.tokenizer,
            stop_token=self.stop_tokens[0],
            warm_start=self.config.init.warm_start,
            data=self.config.data,
            max_response_tokens=self.config.sampling.max_response_tokens,
            seed=self.config.seed,
        )

    def initial_params(
        self,
        workdir: pathlib.Path,
        *,
        stop: Callable[[], bool] = lambda: False,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> Params | None:
        """Makes the parameters before step 0; ``None`` if ``stop`` interrupts it."""
        params = initial_params(
            self.policy,
            self.mesh,
            workdir,
            init=self.config.init,
            model=self.config.model,
            task=self.config.task,
            demonstrations=self.demonstrations(),
            stop=stop,
            on_step=on_step,
        )
        if params is None:
            return None
        source, seed = self.config.model.lora.source, self.config.seed
        return add_adapters(self.policy, params, self.mesh, source=source, seed=seed)

    def sample(self) -> Sample:
        """Makes the verb that samples the rollouts of a step."""
        sampling = self.config.sampling
        return self._sample(sampling.options, sampling.num_rollouts)

    def evaluate(self) -> Evaluate:
        """Makes the verb that evaluates, with the sampling options of ``eval``."""
        config = self.config.eval
        sample = self._sample(config.options, config.num_responses)
        limit = evaluation.cache_limit(self.config, self.policy, self.decode_mesh)
        sample = dataclasses.replace(sample, max_cache_bytes=limit)
        sample = dataclasses.replace(sample, policy=model.as_evaluated(self.policy))
        return Evaluate(sample, config, self.keys)

    def _sample(self, options: SamplingOptions, num_rollouts: int) -> Sample:
        sampling = self.config.sampling
        return Sample(
            policy=self.policy,
            mesh=self.mesh,
            decode_mesh=self.decode_mesh,
            verify=Verify(self.task, self.tokenizer),
            num_rollouts=num_rollouts,
            options=options,
            max_response_tokens=sampling.max_response_tokens,
            stop_tokens=self.stop_tokens,
            max_cache_bytes=sampling.max_cache_bytes,
        )

    def estimate(self) -> Estimate:
        """Makes the verb that estimates the advantages of responses."""
        num_rollouts = self.config.sampling.num_rollouts
        return Estimate(
            configured_estimator(self.config.advantage, num_rollouts=num_rollouts),
            flip_wrong=self.config.reward.flip_wrong,
            mesh=self.mesh,
            keys=self.keys,
        )

    def select(self, estimate: Estimate) -> Select:
        """Makes the verb that starts selecting a step's problems."""
        return Select(
            estimate=estimate,
            mesh=self.mesh,
            rounds=self.config.train.dynamic_sampling_rounds,
            mask_truncated=self.config.loss.mask_truncated,
            seed=self.keys.order(Purpose.EXTRA_PROBLEMS),
        )

    def update(self, optimizer: Optimizer) -> Update:
        """Makes the verb that trains on a rollout batch."""
        return Update.configured(
            self.policy,
            optimizer,
            self.mesh,
            train=self.config.train,
            loss=self.config.loss,
            sampling=self.config.sampling,
        )

    def remember(self) -> Remember:
        """Makes the verb that carries the memory from step to step."""
        return Remember(
            advantage=self.config.advantage,
            num_rollouts=self.config.sampling.num_rollouts,
            batches=self.train_batches(),
            follow_difficulty=self.config.train.follow_difficulty,
            mesh=self.mesh,
        )


def make_setup(config: ExperimentConfig) -> Setup:
    """Makes the task, the tokenizer, the policy and the mesh.

    Raises:
        InputError: the configuration does not fit one of them.
    """
    task = _task(config)
    tokenizer, stop_tokens = model.make_tokenizer(config.model, task)
    tokenizers.check_chat(
        tokenizer,
        system_prompt=config.data.system_prompt,
        template_kwargs=config.data.chat_template_kwargs,
    )
    model.check_positions(config.model, config.data, config.sampling)
    mesh = _make_mesh(config.mesh)
    platform = mesh.devices.flat[0].platform
    arch = model.architecture(
        config.model,
        # Ids may have gaps.
        vocab_size=max(tokenizer.get_vocab().values()) + 1,
        platform=platform,
        image_token=model.image_token(config.model, tokenizer),
    )
    model.check_pictures(config.data, arch)
    checks.check_packing(config, mesh)
    decode_mesh = _decode_mesh(config, arch, mesh)
    num_tokens = model.num_tokens(tokenizer, arch, stop_tokens=stop_tokens)
    policy = model.make_policy(
        config.model, config.sampling, arch, num_tokens=num_tokens
    )
    memory.check_cache(config, policy, decode_mesh)
    # This rejects a loss that balances experts without experts, before reading weights.
    for stage in stages_of(config):
        BatchLoss.configured(policy, stage.config.loss, stage.config.sampling)
    sizes = config.model.source or config.model.arch
    shapes = policies.param_shapes(policy, mesh)
    capacity.check_params(shapes, mesh, sizes=sizes)
    parts = shapes, split_weights(policy, shapes).trained
    logging.info(
        'a policy of %s parameters, of which %s are trained, on %d x %s',
        *(f'{sum(x.size for x in jax.tree.leaves(part)):,}' for part in parts),
        mesh.size,
        mesh.devices.flat[0].device_kind,
    )
    checks.warn_of_repeated_work(config, mesh, decode_mesh)
    checks.warn_of_conversion(policy)
    evaluation.warn_of_idle_devices(config, mesh)
    if platform == 'cpu' and config.model.compute_dtype == 'bfloat16':
        logging.warning(
            'model.compute_dtype=bfloat16 is less precise than float32 on a CPU, and '
            'slower if the CPU does not have it (avx512_bf16)'
        )
    checks.check_draws(config, num_tokens=num_tokens)
    return Setup(config, task, tokenizer, stop_tokens, policy, mesh, decode_mesh)


def _make_mesh(axes: MeshConfig) -> Mesh:
    return sharding.make_mesh(
        data=axes.data, fsdp=axes.fsdp, rollout=axes.rollout, tensor=axes.tensor
    )


def _decode_mesh(config: ExperimentConfig, arch: Arch, mesh: Mesh) -> Mesh:
    heads = arch.num_kv_heads
    size = decode_meshes.tensor_on(mesh, config.mesh, num_kv_heads=heads)
    decode_mesh = decode_meshes.make(mesh, size, num_kv_heads=heads)
    assert isinstance(decode_mesh, Mesh)
    return decode_mesh


def _task(config: ExperimentConfig) -> Task:
    task = make_task(config.task.name, config.task.params)
    if isinstance(task, LengthCheck):
        task.check_answerable(config.sampling.max_response_tokens)
    return task
