"""Makes this library's train step for topology.py, on shapes.

Settings are those of ``configs/enigmata.py:model=qwen25_7b`` but for the work, the
number of layers and the mesh.
"""

import dataclasses

from benchmarks import topology
from benchmarks.topology import Job
from configs import enigmata
from passk_jax import sharding
from passk_jax.config import ExperimentConfig, from_config_dict
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.planning import topologies
from passk_jax.planning.builder import Builder
from passk_jax.planning.programs import Program, build
from passk_jax.setup import model


def program(job: Job) -> Program:
    """Makes the train step."""
    config, parsed = make_config(job), topologies.parse(job.topology)
    arch = hf_config.arch_from_hf(
        PUBLISHED[config.model.source],
        param_dtype=config.model.param_dtype,
        compute_dtype=config.model.compute_dtype,
        remat=config.model.remat,
        attention='splash' if parsed.platform == 'tpu' else 'plain',
    )
    arch = dataclasses.replace(arch, num_layers=job.layers)
    devices = topologies.connect(parsed)
    builder = Builder(
        model.make_policy(config.model, config.sampling, arch),
        sharding.make_mesh(**config.mesh.sizes, devices=devices),
        parsed.platform,
        data=config.data,
        sampling=config.sampling,
        train=config.train,
        loss=config.loss,
        optimizer=config.optimizer,
        advantage=config.advantage,
        log=config.log,
    )
    return build(builder, 'train')


def make_config(job: Job) -> ExperimentConfig:
    """Makes the configuration: one update of one pass, fsdp over all devices."""
    config = enigmata.get_config('model=qwen25_7b')
    config.data.max_prompt_tokens = job.prompt_tokens
    config.sampling.max_response_tokens = job.response_tokens
    config.sampling.num_rollouts = job.rollouts
    config.train.num_prompts = job.prompts
    config.train.mini_batch_prompts = job.prompts
    config.train.micro_batch_prompts = job.prompts
    if job.plain:
        config.train.packing = 'prompts'
        config.train.scoped_vmem_kib = 0
    config.mesh.update(fsdp=job.num_devices, rollout=1, tensor=1, decode_tensor=0)
    return from_config_dict(config)


if __name__ == '__main__':
    topology.serve(program)
