"""Writes the text around a plan's table: introduction, notes, simulation, overflow."""

import math
from collections.abc import Mapping, Sequence

from passk_jax.models import policy as policies
from passk_jax.models.frozen import reads_once
from passk_jax.models.token_costs import read_by_step
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder, shard_bytes, tree_bytes
from passk_jax.planning.chips import GIB
from passk_jax.planning.remedies import Way
from passk_jax.planning.simulation import Assumed, Simulation, simulate
from passk_jax.planning.table import decimal
from passk_jax.planning.topologies import Topology
from passk_jax.setup.model import converts_cache


def introduction(
    builder: Builder,
    topology: Topology,
    lines_of_axes: Mapping[str, str],
    *,
    name: str,
    source: str,
) -> list[str]:
    """Describes the planned run, one sentence per line.

    ``lines_of_axes`` is from :func:`passk_jax.planning.links.axis_lines`; ``name`` is
    the experiment's name and ``source`` the model's, ``''`` for one from scratch.
    """
    arch, train, sampling = builder.policy.arch, builder.train, builder.sampling
    shapes = policies.param_shapes(builder.policy, builder.mesh)
    count = sum(math.prod(x.shape) for x in shapes.values())
    mesh, other = (
        ', '.join(f'{axis}={size}' for axis, size in x.mesh.shape.items())
        for x in (builder, builder.sampling_run)
    )
    mesh += f'; sampling has {other}' if other != mesh else ''
    chips = f'{topology.num_chips} chips'
    if topology.slices > 1:
        chips += f' in {topology.slices} slices'
    if topology.num_devices > topology.num_chips:
        chips += f', {topology.num_devices} devices'
    count_in_pass = train.micro_batch_rollouts
    cache = ', keys and values in int8' if builder.policy.quantizes_cache else ''
    part = f' with {count_in_pass} responses of each' if count_in_pass else ''
    lines = [
        f'{name}: {source or "a policy from scratch"}, {count:,} parameters in '
        f'{arch.param_dtype}{_frozen(builder)}, products in {arch.dtype}, '
        f'remat={arch.remat}, attention={arch.attention}{cache}.',
        f'{topology.name}: {chips}, mesh {mesh}.',
        f'A step has {train.num_prompts} prompts of {builder.data.max_prompt_tokens} '
        f'tokens with {sampling.num_rollouts} responses of '
        f'{sampling.max_response_tokens}; an update has {train.mini_batch_prompts} '
        f'prompts, a pass {train.micro_batch_prompts}{part}.',
    ]
    if lines_of_axes:
        where = ', '.join(f'{axis} on {x}' for axis, x in lines_of_axes.items())
        lines.append(f'Torus lines of the mesh axes: {where}.')
    if not topology.has_compiler:
        lines.append(
            "Nothing is compiled here (for one GPU, pip install -e '.[gpu]' has a "
            'compiler, which needs no GPU): this is a plan from shapes alone, without '
            'traffic and collectives; temporaries, where there are any, are '
            'estimates. FLOPs are those of the program as written, with plain '
            'attention, divided evenly.'
        )
    return [*lines, '']


def _frozen(builder: Builder) -> str:
    """Says how many parameters are frozen, and in which dtype; ``''``: none are."""
    frozen = builder.weights().frozen
    if not frozen:
        return ''
    count = sum(math.prod(x.shape) for x in frozen.values())
    dtype = builder.policy.frozen_dtype or builder.policy.arch.param_dtype
    return f' ({count:,} are frozen, in {dtype})'


def notes(
    analyses: Sequence[Analysis], builder: Builder, *, max_positions: int
) -> list[str]:
    """Adds what the table does not say, one sentence per line.

    The model has positions for ``max_positions`` tokens; 0: no limit.
    """
    lines = ['Longest response and largest batch are estimates from shapes.']
    if max_positions:
        most = max_positions - builder.data.max_prompt_tokens
        lines.append(f'The model has positions for responses of {most:,} tokens.')
    if builder.policy.arch.vision:
        patches, largest = builder.patches
        once = reads_once(builder.policy)
        lines.append(
            'All tokens of a prompt count as those of pictures: '
            f'{patches:,} patches, at most {largest:,} of a picture. The tower reads '
            f'them {"once a step" if once else "wherever a prompt runs"}.'
        )
    for analysis in analyses:
        loops = (analysis.costs or analysis.traced).unknown_loops
        name = analysis.program.name
        if options := analysis.program.options:
            stated = ', '.join(f'{key}={value}' for key, value in options.items())
            lines.append(f'{name} is compiled with {stated}.')
        if analysis.topology.platform == 'gpu' and analysis.costs:
            lines.append(
                f'{name}: traffic has what the second-level cache may serve, so the '
                'time of memory is no strict bound.'
            )
        if loops:
            lines.append(f'{name}: {loops} loops of unknown length, counted once.')
        if name == 'decode':
            if converts_cache(builder.policy):
                lines.append(
                    'decode converts all keys and values from int8 for every token: '
                    f'attention={builder.policy.arch.attention} has no kernel that '
                    'does it on the chip.'
                )
            of_sampling = builder.sampling_run
            prefix = of_sampling.prefix(of_sampling.rows()[0])
            lines.append(
                'A decode step reads, at least: '
                f'weights {decimal(_count_read_weights(of_sampling))}B, '
                f"prompts' keys and values {decimal(shard_bytes(prefix))}B, "
                f"responses' {decimal(shard_bytes(of_sampling.cache()))}B a chip."
            )
    return lines


def _count_read_weights(builder: Builder) -> float:
    """Counts the bytes of weights that a device reads at least in a decode step.

    Of a token table that is not also the head, it reads only the rows of the tokens; a
    device reads its share of them.
    """
    weights, arch = builder.decoding_weights(), builder.policy.arch
    read = shard_bytes(read_by_step(arch, weights))
    if arch.tie_embeddings:
        return read
    table = weights['embed.embedding']
    rows = builder.array(('batch', 'rollouts'), builder.rows(), table.dtype)
    share = shard_bytes(table) / tree_bytes(table)
    return read + shard_bytes(rows) * arch.embed_dim * share


def overflow(analysis: Analysis, ways: Sequence[Way]) -> list[str]:
    """Says that a program does not fit, with a line for each way out."""
    memory, num_devices = analysis.memory, analysis.topology.num_devices
    return [
        '',
        f'{analysis.program.name} does not fit: it needs {memory.total / GIB:.2f} GiB '
        f'of the {memory.limit / GIB:.2f} GiB of a device. The cheapest ways out, as '
        'estimates from shapes:',
        '',
        *(f'{i}. {_line(way, num_devices)}' for i, way in enumerate(ways, start=1)),
    ]


def _line(way: Way, num_devices: int) -> str:
    options = ' '.join(f'--config.{key}={x}' for key, x in way.overrides.items())
    same = way.num_devices == num_devices
    where = '' if same else f'on {way.num_devices:,} devices, '
    alone = '' if way.enough else ', which alone is not enough'
    return (
        f'{where}{options}: at least {way.saved / GIB:.2f} GiB less{alone} '
        f'(at the cost of {way.cost})'
    )


def simulated(
    builder: Builder, analyses: Sequence[Analysis], assumed: Sequence[Assumed]
) -> list[str]:
    """Writes a simulated step and run for each assumption, if costs are known."""
    by_name = {analysis.program.name: analysis for analysis in analyses}
    lines: list[str] = []
    for one in assumed:
        simulation = simulate(builder, by_name, one)
        if simulation is None:
            return []
        lines += ['', f'Lengths {one.lengths.name} (mean {one.lengths.mean:,.0f}):', '']
        chips = analyses[0].topology.num_chips
        lines += _simulation(simulation, steps=builder.train.steps, chips=chips, of=one)
    if not assumed:
        return []
    factors, ending = assumed[0].factors, 'evaluations count nothing: --eval_problems'
    if problems := assumed[0].num_problems:
        ending = f'an evaluation has {problems:,} problems'
    about = (
        f'Simulated. Expected: {factors.mfu:.0%} of the FLOP/s, '
        f'{factors.bandwidth:.0%} of the memory bandwidth in decoding, '
        f'{factors.disk / 1e9:g} GB/s a host to the disk; {ending}.'
    )
    return ['', about, *lines]


def _simulation(
    simulation: Simulation, *, steps: int, chips: int, of: Assumed
) -> list[str]:
    """Writes the table of a simulated step and run."""

    def row(name: str, values: Sequence[float], unit: str = ' s') -> str:
        cells = ' | '.join(f'{f"{value:,.1f}{unit}":>14}' for value in values)
        return f'| {name:<20} | {cells} |'

    hours = [x / 3600 for x in simulation.run]
    chip_hours = [x * chips for x in hours]
    rows = [row(name, x) for name, x in simulation.of_step.items()]
    rows += [row('step', simulation.step)]
    rows += [row(f'one {name}', x) for name, x in simulation.besides.items()]
    rows += [row('step, all included', [x / steps for x in simulation.run])]
    rows += [row(f'{steps:,} steps', hours, ' h'), row('chip-hours', chip_hours, '')]
    if of.price:
        rows.append(row('price', [x * of.price for x in chip_hours], ''))
    return [
        f'| {"":<20} | {"at least":>14} | {"expected":>14} |',
        f'| {"-" * 20} | {"-" * 13}: | {"-" * 13}: |',
        *rows,
    ]


def too_much(analysis: Analysis) -> str:
    """Says how much memory a program needs, and how much of it a device lacks."""
    memory = analysis.memory
    return (
        f'{analysis.program.name} needs {memory.total / GIB:.2f} GiB, '
        f'{(memory.total - memory.limit) / GIB:.2f} GiB more than a device has'
    )


def settings(over: Analysis | None, flags: Sequence[str]) -> list[str]:
    """Writes the end of a search: whether everything fits, and its flags in one line.

    ``over`` is the program that does not fit; ``flags`` are arguments of a shell.
    """
    sentence = 'These settings fit, and train the same:'
    if over:
        sentence = (
            f'No settings that train the same were found to fit: {too_much(over)} '
            'with the last that were tried:'
        )
    return ['', sentence, '', f'    {" ".join(flags)}']
