"""Plans a configuration for chips that need not be present.

    python -m passk_jax.plan --config=configs/enigmata.py:model=qwen25_7b \\
        --topology=v5p:4x4x4

This compiles the run's programs (training step, log-prob pass, weights for sampling,
prefill, decoding, diagnosis) with the topology's compiler. It prints memory, work,
collectives, and a lower bound of the time. On the standard error, a line says which
program is being compiled, and another gives its first figures.

A TPU topology needs the TPU compiler (the extra 'tpu'), but no TPU. One GPU,
``gpu:h100x1``, needs the GPU compiler (the extra 'gpu'), but no GPU. Several GPUs, and
one GPU without its compiler, are planned from shapes alone. ``cpu:8`` needs nothing.
Planning reads no weights, data or published tokenizer; it runs and measures nothing.
Exit status 1: a program does not fit.

``--fit`` searches for settings that fit and train the same: the rollouts of a pass, the
cache's limit, the mesh. It ends with one line of their flags, or names the program that
still does not fit and by how much. Without a compiler, what programs allocate is
estimated.
"""

import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import json
import pathlib
import shlex
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from passk_jax import cli, sharding
from passk_jax.cli import config_file
from passk_jax.config import (
    AdvantageConfig,
    ExperimentConfig,
    LossConfig,
    from_json_dict,
    stages_of,
    to_dict,
)
from passk_jax.diagnostics.step import compared_estimators
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.models import decode_mesh
from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.frozen import reads_once
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.planning import (
    fits,
    links,
    meshes,
    remedies,
    summary,
    table,
    topologies,
)
from passk_jax.planning import lengths as distributions
from passk_jax.planning.analysis import Analysis, analyse
from passk_jax.planning.builder import Builder
from passk_jax.planning.programs import PICTURES, PROGRAMS, Program, build
from passk_jax.planning.search import flags, search
from passk_jax.planning.simulation import Assumed
from passk_jax.planning.topologies import Topology
from passk_jax.runs.directory import git_state
from passk_jax.setup import model
from passk_jax.tasks import make_task


def main(
    *,
    config: ExperimentConfig,
    topology: str,
    programs: str = '',
    fit: bool = False,
    lengths: str = '',
    eval_problems: int = 0,
    price: float = 0.0,
    markdown: str | None = None,
) -> int:
    """Prints the plan; returns 1 if a program does not fit."""
    chips = topologies.parse(topology)
    names = programs.split(',') if programs else []
    if unknown := set(names) - {*PROGRAMS, PICTURES}:
        choices = [*PROGRAMS, PICTURES]
        raise InputError(f'programs {sorted(unknown)} must be among {choices}')
    limit, problems = config.sampling.max_response_tokens, config.eval.num_problems
    size = {'num_problems': eval_problems or problems, 'price': price}
    assumed = [
        Assumed(x, config.eval, config.checkpoint, **size)
        for x in distributions.read_all(lengths, limit=limit)
    ]
    if fit:
        config_flags = config_file.flags_of(_arguments(sys.argv))
        text, fitting = plan_that_fits(
            config, chips, names, config_flags=config_flags, assumed=assumed, tell=_tell
        )
    else:
        text, fitting = plan(config, chips, names, assumed=assumed, tell=_tell)
    sys.stdout.write(text)
    if markdown:
        command = shlex.join(['python', '-m', 'passk_jax.plan', *_arguments(sys.argv)])
        title = f'# {config.name} on {chips.name}\n\n    {command}\n\n'
        atomic_write_text(markdown, f'{title}{_describe_origin()}\n{text}')
    return 0 if fitting else 1


def _programs(builder: Builder) -> list[str]:
    """Lists the programs of a configuration."""
    first = [PICTURES] if reads_once(builder.policy) else []
    without = () if builder.log.diagnostics_every else ('diagnose',)
    return first + [name for name in PROGRAMS if name not in without]


def _tell(line: str) -> None:
    """Prints a line of progress."""
    print(line, file=sys.stderr, flush=True)


def _describe_origin() -> str:
    """Describes when and with which revision and versions the plan was made."""
    git = git_state(pathlib.Path(__file__).parent)
    changed = ' with changes' if git['dirty'] else ''
    revision = f'revision {git["revision"][:10]}{changed}' if git['revision'] else ''
    versions = [f'jax {jax.__version__}']
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        versions.append(f'libtpu {importlib.metadata.version("libtpu")}')
    if revision:
        versions.insert(0, revision)
    today = datetime.datetime.now(datetime.UTC).date()
    return f'Made on {today}: {", ".join(versions)}.\n'


def _arguments(argv: Sequence[str]) -> list[str]:
    """Returns the command's arguments without ``--markdown`` and its value."""
    arguments, remaining = [], iter(argv[1:])
    for argument in remaining:
        name, equals, _ = argument.partition('=')
        if name not in ('-markdown', '--markdown'):
            arguments.append(argument)
        elif not equals:
            next(remaining, None)
    return arguments


def plan(
    config: ExperimentConfig,
    topology: Topology,
    names: Sequence[str],
    *,
    assumed: Sequence[Assumed] = (),
    tell: Callable[[str], object] = lambda line: None,
) -> tuple[str, bool]:
    """Plans programs; returns the plan as Markdown, and whether all of them fit.

    Args:
        config, topology: the experiment and its devices.
        names: names of the programs; none: all of the experiment.
        assumed: for simulated steps and runs; none: simulate none.
        tell: called with a line when a program starts and one when it is analysed.

    Raises:
        InputError: the configuration does not fit the topology's devices.
    """
    devices = topologies.connect(topology)
    mesh = sharding.make_mesh(**config.mesh.sizes, devices=devices)
    builder, positions = _read(config, topology, mesh)
    names, analyses = names or _programs(builder), []
    for i, name in enumerate(names, start=1):
        turn = f'({i} of {len(names)})'
        analyses.append(_analyse(build(builder, name), topology, turn, tell))
    lines = _lines(config, builder, topology, analyses, positions)
    lines += summary.simulated(builder, analyses, assumed)
    check = functools.partial(_check, config)
    for analysis in analyses:
        if not analysis.memory.fits:
            lines += _ways_out(analysis, builder, check)
    return '\n'.join([*lines, '']), all(analysis.memory.fits for analysis in analyses)


def plan_that_fits(
    config: ExperimentConfig,
    topology: Topology,
    names: Sequence[str],
    *,
    config_flags: Mapping[str, str] = types.MappingProxyType({}),
    assumed: Sequence[Assumed] = (),
    tell: Callable[[str], object] = lambda line: None,
) -> tuple[str, bool]:
    """Plans with settings that fit; their flags are the plan's last line.

    Args:
        config, topology, names, assumed, tell: as for :func:`plan`.
        config_flags: the flags that made ``config``: dotted key -> argument.

    Returns:
        The plan, and whether such settings exist. If not, the plan is for the last ones
        tried, and ends with what exceeds the memory.

    Raises:
        InputError: the memory limit is unknown, or no mesh of the devices divides the
            batches.
    """
    if not topology.chip.memory:
        raise InputError(
            f'topology {topology.name!r} has no limit of memory, and --fit needs one: '
            'name TPUs or GPUs, such as v5e:4x8 or gpu:h100x8'
        )
    devices = topologies.connect(topology)
    mesh = meshes.completed(config.mesh, len(devices))
    builder, positions = _read(config, topology, mesh)
    # Training runs the program 'score' only as a part of other programs.
    names = names or [name for name in _programs(builder) if name != 'score']
    sizes = config.mesh.sizes
    first = {f'mesh.{x}': mesh.shape[x] for x, size in sizes.items() if size == -1}
    if builder.decode_tensor != config.mesh.decode_tensor:
        first['mesh.decode_tensor'] = builder.decode_tensor
    first |= meshes.first_mesh(builder, names, topology)
    if first:
        tell(f'begins with {" ".join(flags(first))}')

    def analysed(builder: Builder, name: str) -> Analysis:
        program = build(_placed(builder, devices), name)
        compiling = fits.initial_bytes(program) <= topology.chip.memory
        analysis = _analyse(program, topology, '', tell, compiling=compiling)
        if topology.has_compiler:
            return analysis
        return fits.with_temporaries(analysis, builder)

    check = functools.partial(_check, config)
    result = search(builder, names, analysed, check=check, tell=tell, first=first)
    builder, over = _placed(result.builder, devices), result.over
    lines = _lines(config, builder, topology, result.analyses, positions)
    lines += summary.simulated(builder, result.analyses, assumed)
    if over:
        over = fits.with_temporaries(over, builder)
        lines += _ways_out(over, builder, lambda x: check({**result.overrides, **x}))
    lines += summary.settings(over, _merge_flags(config_flags, result.overrides))
    return '\n'.join([*lines, '']), over is None


def _merge_flags(
    config_flags: Mapping[str, str], overrides: Mapping[str, Any]
) -> list[str]:
    """Returns the flags of a configuration with these overrides."""
    unchanged = [flag for key, flag in config_flags.items() if key not in overrides]
    return [*map(shlex.quote, unchanged), *flags(overrides)]


def _placed(builder: Builder, devices: Sequence[Any]) -> Builder:
    """Returns the builder with its mesh on these devices."""
    mesh = sharding.make_mesh(**builder.mesh.shape, devices=list(devices))
    return dataclasses.replace(builder, mesh=mesh)


def _read(
    config: ExperimentConfig, topology: Topology, mesh: sharding.AnyMesh
) -> tuple[Builder, int]:
    """Returns the builder of the programs, and the model's positions; 0: no limit."""
    with tempfile.TemporaryDirectory() as directory:
        readable = _readable(config, pathlib.Path(directory))
        source = readable.model.source
        positions = hf_config.position_limit(source) if source else 0
        return _builder(readable, topology, mesh), positions


def _analyse(
    program: Program,
    topology: Topology,
    turn: str,
    tell: Callable[[str], object],
    *,
    compiling: bool = True,
) -> Analysis:
    """Analyses a program and reports progress."""
    doing = 'compiling' if compiling and topology.has_compiler else 'tracing'
    tell(f'{doing} {program.name} for {topology.name} {turn}'.rstrip())
    started = time.monotonic()
    analysis = analyse(program, topology, compiling=compiling)
    took = time.monotonic() - started
    tell(f'{table.progress(analysis)} ({took:.0f} s)')
    return analysis


def _lines(
    config: ExperimentConfig,
    builder: Builder,
    topology: Topology,
    analyses: Sequence[Analysis],
    positions: int,
) -> list[str]:
    """Makes the plan's introduction, table and notes."""
    mesh = builder.mesh
    edges = [fits.fit(analysis, builder) for analysis in analyses]
    where = links.places(list(mesh.devices.flat), dimensions=topology.chip.dimensions)
    axes = links.axis_lines(mesh, where) if where else {}
    lines = summary.introduction(
        builder, topology, axes, name=config.name, source=config.model.source
    )
    lines.append(table.render(table.plan_rows(analyses, edges)))
    return lines + summary.notes(analyses, builder, max_positions=positions)


def _ways_out(analysis: Analysis, builder: Builder, check: remedies.Check) -> list[str]:
    """Lists the changes that would make a program fit."""
    edge = fits.fit(analysis, builder)
    ways = remedies.ways_out(analysis, builder, edge, check=check)
    return summary.overflow(analysis, ways)


def _check(config: ExperimentConfig, overrides: Mapping[str, Any]) -> None:
    """Raises InputError if the configuration rejects these values of dotted keys."""
    values = to_dict(config)
    for key, value in overrides.items():
        section, _, name = key.partition('.')
        values[section][name] = value
    from_json_dict(values)


def _readable(config: ExperimentConfig, directory: pathlib.Path) -> ExperimentConfig:
    """Writes a published model's config to a file, so that planning needs no hub."""
    source = config.model.source
    if source not in PUBLISHED or pathlib.Path(source).expanduser().is_dir():
        return config
    (directory / 'config.json').write_text(json.dumps(PUBLISHED[source]), 'utf-8')
    model = dataclasses.replace(config.model, source=str(directory))
    return dataclasses.replace(config, model=model)


def _builder(
    config: ExperimentConfig, topology: Topology, mesh: sharding.AnyMesh
) -> Builder:
    model.check_positions(config.model, config.data, config.sampling)
    # Without a GPU's libraries, its kernels cannot be traced.
    platform = topology.platform if topology.has_compiler else 'cpu'
    size = _vocab_size(config)
    arch = model.architecture(config.model, vocab_size=size, platform=platform)
    model.check_pictures(config.data, arch)
    heads = arch.num_kv_heads
    return Builder(
        model.make_policy(config.model, config.sampling, arch),
        mesh,
        topology.platform,
        data=config.data,
        sampling=config.sampling,
        train=config.train,
        loss=_heaviest_loss(config),
        optimizer=config.optimizer,
        advantage=_most_compared(config),
        log=config.log,
        decode_tensor=decode_mesh.tensor_on(mesh, config.mesh, num_kv_heads=heads),
    )


def _heaviest_loss(config: ExperimentConfig) -> LossConfig:
    """Returns the loss of the first stage with a KL term; without one, the run's loss.

    A run with a KL term holds the reference's weights in every stage.
    """
    losses = [stage.config.loss for stage in stages_of(config)]
    return next((loss for loss in losses if loss.kl_coef), config.loss)


def _most_compared(config: ExperimentConfig) -> AdvantageConfig:
    """Returns the advantage of the stage whose diagnosis compares most estimators."""
    num_rollouts = config.sampling.num_rollouts

    def count(x: AdvantageConfig) -> int:
        return len(compared_estimators(x.name, num_rollouts=num_rollouts, k=x.k))

    return max((stage.config.advantage for stage in stages_of(config)), key=count)


def _vocab_size(config: ExperimentConfig) -> int:
    """Returns a new policy's vocabulary size; 0 if ``model.source`` sets it."""
    if config.model.source:
        return 0
    if config.model.tokenizer == 'characters':
        task = make_task(config.task.name, config.task.params)
        return len(model.make_characters(config.model, task))
    return len(tokenizers.load_tokenizer(config.model.tokenizer))


if __name__ == '__main__':
    cli.run(main)
