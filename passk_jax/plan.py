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
import pathlib
import sys
from collections.abc import Sequence

import jax
from absl import flags
from jax.sharding import Mesh

from passk_jax import cli, setup, sharding
from passk_jax import config as configs
from passk_jax.config import ExperimentConfig
from passk_jax.config_flag import CONFIG
from passk_jax.files import atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.models import tokenizer as tokenizers
from passk_jax.planning import fits, programs, sentences, table, topologies
from passk_jax.planning.analysis import Analysis, analyse
from passk_jax.planning.programs import Builder
from passk_jax.planning.topologies import Topology
from passk_jax.tasks import make_task

_TOPOLOGY = flags.DEFINE_string(
    'topology', None, 'Chips: v5p:4x4x4, v5e:16x16, v6e:8x8, cpu:8, gpu:h100x8.'
)
_PROGRAMS = flags.DEFINE_list(
    'programs', list(programs.PROGRAMS), 'What to compile, with commas between.'
)
_MEASURE = flags.DEFINE_bool(
    'measure', False, 'Compile at half the response length too, to measure the slope.'
)
_MARKDOWN = flags.DEFINE_string(
    'markdown', None, 'Markdown file that gets the plan too.'
)


def main(argv: Sequence[str]) -> int:
    """Prints the plan; 1 if something does not fit."""
    configs.reject_leftover_arguments(argv)
    config = configs.from_config_dict(CONFIG.value)
    topology = topologies.parse(_TOPOLOGY.value)
    if unknown := set(_PROGRAMS.value) - set(programs.PROGRAMS):
        raise ValueError(
            f'programs {sorted(unknown)} are none of {list(programs.PROGRAMS)}'
        )
    text, fit = plan(config, topology, _PROGRAMS.value, measure=_MEASURE.value)
    sys.stdout.write(text)
    if _MARKDOWN.value:
        command = ' '.join(['python -m passk_jax.plan', *_arguments(sys.argv[1:])])
        path = pathlib.Path(_MARKDOWN.value)
        title = f'# {config.name} on {topology.name}\n\n    {command}\n\n'
        atomic_write_text(path, title + text)
    return 0 if fit else 1


def _arguments(argv: Sequence[str]) -> list[str]:
    return [each for each in argv if not each.lstrip('-').startswith('markdown=')]


def plan(
    config: ExperimentConfig,
    topology: Topology,
    names: Sequence[str],
    *,
    measure: bool,
) -> tuple[str, bool]:
    """The plan as Markdown, and whether everything fits.

    Args:
        config: the experiment.
        topology: what for.
        names: of programs.
        measure: compile a second time, for the memory of a response token.

    Raises:
        ValueError: the configuration does not fit the topology's devices.
    """
    mesh = sharding.make_mesh(
        **dataclasses.asdict(config.mesh), devices=topologies.connect(topology)
    )
    # The mesh without its devices: what is made on the way, such as a kernel's tables,
    # is made here.
    with (
        programs.readable_source(config) as readable,
        jax.sharding.use_abstract_mesh(mesh.abstract_mesh),
    ):
        builder = _builder(readable, topology, mesh)
        analyses, edges = [], []
        for name in names:
            analysis = analyse(builder.build(name), topology)
            slope = _measured_slope(analysis, builder) if measure else None
            analyses.append(analysis)
            edges.append(fits.fit(analysis, builder, per_token=slope))
        text = '\n'.join(
            [
                *sentences.introduction(builder, topology, source=config.model.source),
                table.render(table.plan_rows(analyses, edges)),
                *sentences.readings(analyses, builder, measured=measure),
                *sentences.overflows(analyses, edges, builder),
                '',
            ]
        )
    return text, all(each.memory.fits for each in analyses)


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


def _measured_slope(analysis: Analysis, builder: Builder) -> float | None:
    """Bytes a response token, from a second compilation at half their number."""
    sampling = builder.config.sampling
    T = sampling.max_response_tokens
    if T < 2 or not analysis.topology.has_compiler:
        return None
    shorter = dataclasses.replace(sampling, max_response_tokens=T // 2)
    config = dataclasses.replace(builder.config, sampling=shorter)
    half = dataclasses.replace(builder, config=config)
    other = analyse(half.build(analysis.program.name), analysis.topology)
    return max(0.0, analysis.memory.total - other.memory.total) / (T - T // 2)


if __name__ == '__main__':
    flags.mark_flags_as_required(['config', 'topology'])
    cli.run(main)
