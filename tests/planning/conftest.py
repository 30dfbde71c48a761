"""The tiny experiment of tests/tiny.py as the planner has it."""

import dataclasses

import jax
import pytest

from passk_jax import sharding
from passk_jax.config import ExperimentConfig
from passk_jax.models import policy as policies
from passk_jax.planning import topologies
from passk_jax.planning.builder import Builder
from passk_jax.setup import model
from tests import tiny
from tests.models import oracle


def make_decoding_apart() -> Builder:
    """The tiny experiment with two key/value heads, which only sampling splits."""
    config = tiny.make_config(model__arch__num_kv_heads=2)
    builder = make_builder(config, rollout=4, tensor=1)
    return dataclasses.replace(builder, decode_tensor=2)


def make_builder(config: ExperimentConfig | None = None, **mesh: int) -> Builder:
    """The programs of the tiny experiment, or another, on eight devices."""
    config = config or tiny.make_config()
    sizes = {'data': 1, 'fsdp': 2, 'rollout': 2, 'tensor': 2} | mesh
    mesh = sharding.make_mesh(**sizes, devices=jax.devices()[:8])
    arch = model.architecture(config.model, vocab_size=16, platform='cpu')
    return Builder(
        model.make_policy(config.model, config.sampling, arch),
        mesh,
        'cpu',
        data=config.data,
        sampling=config.sampling,
        train=config.train,
        loss=config.loss,
        optimizer=config.optimizer,
        advantage=config.advantage,
        log=config.log,
    )


def make_pictured(
    family: str = 'qwen3_vl', *, trained: bool = False, max_pixels: int = 0
) -> Builder:
    """The tiny experiment of a policy that reads pictures, perhaps with its tower."""
    builder = make_builder()
    arch = oracle.family_arch(family)
    names = policies.Transformer.parameters(arch)
    tower = {name for name in names if name.startswith('vision.')}
    policy = policies.Policy(
        arch, head_chunk_tokens=64, frozen=frozenset(() if trained else tower)
    )
    data = dataclasses.replace(builder.data, max_picture_pixels=max_pixels)
    return dataclasses.replace(builder, policy=policy, data=data)


def on_devices(builder: Builder) -> Builder:
    """The same on the eight devices, where what is built can be compiled."""
    mesh = sharding.make_mesh(**builder.mesh.shape, devices=jax.devices()[:8])
    return dataclasses.replace(builder, mesh=mesh)


@pytest.fixture
def builder() -> Builder:
    """The tiny experiment's."""
    return make_builder()


@pytest.fixture
def topology() -> topologies.Topology:
    """The eight devices that every test has, with a chip of known peaks."""
    parsed = topologies.parse('cpu:8')
    chip = dataclasses.replace(
        parsed.chip,
        flops=1e12,
        memory=2**20,
        memory_bandwidth=1e11,
        link_bandwidth=1e10,
    )
    return dataclasses.replace(parsed, chip=chip)
