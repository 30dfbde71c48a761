"""What a configuration needs of chips that need not be there.

    python -m passk_jax.plan --config=configs/enigmata_qwen25_7b.py --topology=v5p:4x4x4

compiles the run's programs (training step, log-prob pass, prefill, decode step) with
the real compiler of the topology and prints memory, work, collectives, and the time
that no run can beat. A TPU topology needs the TPU compiler (the extra 'tpu') and no
TPU; ``cpu:8`` needs nothing; ``gpu:h100x8`` is planned by shapes alone, because the GPU
compiler needs a GPU. No weight, tokenizer of a model or data is read, nothing runs and
nothing is measured. Exit status 1: a program does not fit.
"""

import dataclasses
import json
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Sequence

from jax.sharding import Mesh

from passk_jax import cli, setup, sharding
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.planning import fits, summary, table, topologies
from passk_jax.planning.analysis import analyse
from passk_jax.planning.programs import PROGRAMS, Builder
from passk_jax.planning.topologies import Topology
from passk_jax.tasks import make_task


def main(
    *,
    config: ExperimentConfig,
    topology: str,
    programs: str = ','.join(PROGRAMS),
    markdown: str = '',
) -> int:
    """Prints the plan; 1 if something does not fit."""
    chips, names = topologies.parse(topology), programs.split(',')
    if unknown := set(names) - set(PROGRAMS):
        raise InputError(f'programs {sorted(unknown)} are none of {list(PROGRAMS)}')
    text, fit = plan(config, chips, names)
    sys.stdout.write(text)
    if markdown:
        command = shlex.join(['python', '-m', 'passk_jax.plan', *_arguments(sys.argv)])
        title = f'# {config.name} on {chips.name}\n\n    {command}\n\n'
        atomic_write_text(markdown, title + text)
    return 0 if fit else 1


def _arguments(argv: Sequence[str]) -> list[str]:
    """The command's own arguments, but for where the plan is kept."""
    kept, rest = [], iter(argv[1:])
    for argument in rest:
        name, given, _ = argument.partition('=')
        if name not in ('-markdown', '--markdown'):
            kept.append(argument)
        elif not given:
            # The next one is its value.
            next(rest, None)
    return kept


def plan(
    config: ExperimentConfig, topology: Topology, names: Sequence[str]
) -> tuple[str, bool]:
    """The plan of programs as Markdown, and whether everything fits.

    Raises:
        ValueError: the configuration does not fit the topology's devices.
    """
    mesh = sharding.make_mesh(
        **dataclasses.asdict(config.mesh), devices=topologies.connect(topology)
    )
    with tempfile.TemporaryDirectory() as directory:
        readable = _readable(config, pathlib.Path(directory))
        builder = _builder(readable, topology, mesh)
        analyses = [analyse(builder.build(name), topology) for name in names]
        edges = [fits.fit(each, builder) for each in analyses]
        text = '\n'.join(
            [
                *summary.introduction(builder, topology, source=config.model.source),
                table.render(table.plan_rows(analyses, edges)),
                *summary.readings(analyses, builder),
                *summary.overflows(analyses, edges, builder),
                '',
            ]
        )
    return text, all(each.memory.fits for each in analyses)


def _readable(config: ExperimentConfig, directory: pathlib.Path) -> ExperimentConfig:
    """With a published model as a file, so that no plan needs the hub."""
    source = config.model.source
    if source not in PUBLISHED or pathlib.Path(source).expanduser().is_dir():
        return config
    (directory / 'config.json').write_text(json.dumps(PUBLISHED[source]))
    model = dataclasses.replace(config.model, source=str(directory))
    return dataclasses.replace(config, model=model)


def _builder(config: ExperimentConfig, topology: Topology, mesh: Mesh) -> Builder:
    setup.check_positions(config)
    # A GPU's kernels cannot be traced where they cannot run.
    platform = 'cpu' if topology.platform == 'gpu' else topology.platform
    arch = setup.architecture(
        config.model, vocab_size=_vocab_size(config), platform=platform
    )
    chunk = config.model.head_chunk_tokens
    return Builder(config, policies.Policy(arch, head_chunk_tokens=chunk), mesh)


def _vocab_size(config: ExperimentConfig) -> int:
    """Of a policy made from scratch; a source says its own."""
    if config.model.source:
        return 0
    if config.model.tokenizer == 'characters':
        task = make_task(config.task.name, config.task.params)
        return len(tokenizers.character_tokenizer(task.alphabet))
    return len(tokenizers.load_tokenizer(config.model.tokenizer))


if __name__ == '__main__':
    cli.run(main)
