"""Compiles google-tunix's GRPO learner for a topology: a side of topology.py.

It runs under a python that has google-tunix. Model, trainer and learner are tunix's,
with shapes for arrays; the program is the step that its trainer jits. Settings are
those of its examples: whole decoder layers are recomputed (``remat_config=3``), flash
attention is on. One pass makes an update, so its optimizer accumulates nothing.
"""

from typing import Any
from unittest import mock

import jax
import optax
from flax import nnx
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tunix.models.qwen2 import model as qwen2
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.trainer import Trainer

from benchmarks import topology, work
from benchmarks.topology import Job
from passk_jax.planning import topologies
from passk_jax.planning.programs import Program


class Step:
    """A step of tunix's trainer, which reads the mesh from its context."""

    def __init__(self, step: Any, mesh: Mesh, arguments: tuple[Any, ...]):
        self._step, self._mesh, self._arguments = step, mesh, arguments

    def trace(self, *_: Any) -> Any:
        """Traces the step on its modules; the arguments are their states."""
        with self._mesh:
            return self._step.trace(*self._arguments).traced


def program(job: Job) -> Program:
    """Makes tunix's train step on shapes."""
    devices = topologies.connect(topologies.parse(job.topology))
    # tunix leaves activations unsharded where the default devices are CPUs.
    jax.devices = lambda *_: devices
    mesh = jax.make_mesh(
        (len(devices), 1),
        ('fsdp', 'tp'),
        axis_types=(jax.sharding.AxisType.Auto,) * 2,
        devices=devices,
    )
    trainer, config = make_trainer(job)
    add_loss(trainer, config, job, mesh)
    step, _ = trainer.jit_train_and_eval_step()
    place((trainer.model, trainer.optimizer), mesh)
    example = make_example(job, mesh)
    states = nnx.state(trainer.model), nnx.state(trainer.optimizer), example
    return Program(
        'train',
        Step(step.func, mesh, (*step.args, example)),
        states,
        mesh,
        0.0,
        0.0,
        job.num_tokens,
    )


def make_trainer(job: Job) -> tuple[Trainer, rl_cluster.RLTrainingConfig]:
    """Makes tunix's trainer of a model like Qwen2.5-7B, with shapes for arrays."""
    settings = qwen2.ModelConfig.qwen2p5_7b()
    settings.num_layers = job.layers
    settings.dtype = jnp.bfloat16
    settings.remat_config = qwen2.RematConfig.DECODER
    settings.use_flash_attention = True
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(1e-6, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.1),
    )
    config = rl_cluster.RLTrainingConfig(
        actor_optimizer=optimizer, eval_every_n_steps=1, max_steps=1
    )
    trainers = []

    def make() -> tuple[nnx.Module, nnx.Module]:
        model = qwen2.Qwen2(settings, rngs=nnx.Rngs(0))
        trainers.append(Trainer(model, optimizer, config, lambda: {}))
        return trainers[0].model, trainers[0].optimizer

    model, state = nnx.eval_shape(make)
    trainers[0].model, trainers[0].optimizer = model, state
    return trainers[0], config


def add_loss(
    trainer: Trainer, config: rl_cluster.RLTrainingConfig, job: Job, mesh: Mesh
) -> None:
    """Lets tunix's learner give the trainer its loss."""
    cluster = mock.MagicMock()
    cluster.actor_trainer = trainer
    cluster.rollout.model.return_value = None
    cluster.rollout.pad_id.return_value = work.PAD
    cluster.rollout.eos_id.return_value = work.PAD + 1
    cluster.get_rollout_config.return_value.temperature = 1.0
    cluster.cluster_config.training_config = config
    cluster.cluster_config.role_to_mesh = dict.fromkeys(rl_cluster.Role, mesh)
    settings = grpo_learner.GRPOConfig(num_generations=job.rollouts, beta=0.0)
    grpo_learner.GRPOLearner(cluster, settings, reward_fns=len)


def place(modules: Any, mesh: Mesh) -> None:
    """Shards shapes by the model's specifications, as tunix does on devices."""
    state = nnx.state(modules)
    specs = nnx.get_partition_spec(state)
    placed = jax.tree.map(
        lambda x, spec: jax.ShapeDtypeStruct(
            x.shape, x.dtype, sharding=NamedSharding(mesh, spec)
        ),
        state,
        specs,
    )
    nnx.update(modules, placed)


def make_example(job: Job, mesh: Mesh) -> grpo_learner.TrainExample:
    """Makes a batch, in which each response repeats its prompt."""
    rows = NamedSharding(mesh, PartitionSpec('fsdp'))

    def array(dtype: Any, *trailing: int) -> jax.ShapeDtypeStruct:
        shape = (job.prompts * job.rollouts, *trailing)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=rows)

    return grpo_learner.TrainExample(
        prompt_ids=array(jnp.int32, job.prompt_tokens),
        prompt_mask=array(jnp.bool_, job.prompt_tokens),
        completion_ids=array(jnp.int32, job.response_tokens),
        completion_mask=array(jnp.bool_, job.response_tokens),
        advantages=array(jnp.float32),
        ref_per_token_logps=None,
        # One update a batch: the learner needs no other log-probabilities.
        old_per_token_logps=None,
    )


if __name__ == '__main__':
    topology.serve(program)
