"""What a plan says in words: what was planned, how to read it, what does not fit."""

import math
from collections.abc import Sequence

from passk_jax.models import policy as policies
from passk_jax.models.hf import config as hf_config
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.chips import GIB
from passk_jax.planning.fits import Fit
from passk_jax.planning.programs import Builder, shard_bytes
from passk_jax.planning.remedies import Way, ways_out
from passk_jax.planning.table import decimal
from passk_jax.planning.topologies import Topology


def introduction(builder: Builder, topology: Topology, *, source: str) -> list[str]:
    """What is planned, a sentence a line.

    Args:
        builder: of the programs.
        topology: what for.
        source: the model's name; ``''``: none, it is made from scratch.
    """
    config, arch = builder.config, builder.policy.arch
    sampling, train = config.sampling, config.train
    shapes = policies.param_shapes(builder.policy, builder.mesh)
    count = sum(math.prod(x.shape) for x in shapes.values())
    mesh = ', '.join(f'{axis}={size}' for axis, size in builder.mesh.shape.items())
    lines = [
        f'{config.name}: {source or "a policy from scratch"}, {count:,} parameters in '
        f'{arch.param_dtype}, products in {arch.dtype}, remat={arch.remat}, '
        f'attention={arch.attention}.',
        f'{topology.name}: {topology.num_chips} chips, mesh {mesh}.',
        f'A step has {train.num_prompts} prompts of {config.data.max_prompt_tokens} '
        f'tokens with {sampling.num_rollouts} responses of '
        f'{sampling.max_response_tokens}; an update has {train.mini_batch_prompts} '
        f'prompts, a pass {train.micro_batch_prompts}.',
    ]
    if not topology.has_compiler:
        lines.append(
            'There is no compiler for it here: this is a plan by shapes alone, without '
            'temporaries, traffic and collectives; FLOPs are those of the program as '
            'written, with plain attention, divided evenly.'
        )
    return [*lines, '']


def readings(analyses: Sequence[Analysis], builder: Builder) -> list[str]:
    """How the table's edges were had, and what it leaves unsaid, a sentence a line."""
    lines = [
        'Longest response and largest batch are estimates from shapes; the batch is '
        'train.micro_batch_prompts of train and score, train.num_prompts of the others.'
    ]
    source = builder.config.model.source
    if limit := hf_config.position_limit(source) if source else 0:
        most = limit - builder.config.data.max_prompt_tokens
        lines.append(f'The model has positions for responses of {most:,} tokens.')
    for each in analyses:
        loops = each.costs.unknown_loops if each.costs else each.traced.unknown_loops
        if loops:
            lines.append(f'{each.program.name}: {loops} loops of unknown length, once.')
        if each.program.name == 'decode':
            lines.append(_decoding(each, builder))
    return lines


def overflows(
    analyses: Sequence[Analysis], edges: Sequence[Fit], builder: Builder
) -> list[str]:
    """A sentence for each program that does not fit, and what to do."""
    lines = []
    for analysis, edge in zip(analyses, edges, strict=True):
        memory = analysis.memory
        if memory.fits:
            continue
        lines += [
            '',
            f'{analysis.program.name} does not fit: it needs '
            f'{memory.total / GIB:.2f} GiB of the {memory.limit / GIB:.2f} GiB that a '
            'program has on a chip. The cheapest ways out, as estimates from shapes:',
            '',
        ]
        ways = ways_out(analysis, builder, edge)
        chips = analysis.topology.num_chips
        lines += [f'{i}. {_way(way, chips)}' for i, way in enumerate(ways, start=1)]
    return lines


def _way(way: Way, num_chips: int) -> str:
    options = ' '.join(f'--config.{key}={x}' for key, x in way.overrides.items())
    where = '' if way.num_chips == num_chips else f'on {way.num_chips:,} chips, '
    saved = f'at least {way.saved / GIB:.2f} GiB less'
    alone = '' if way.enough else ', which alone is not enough'
    return f'{where}{options}: {saved}{alone} (at the cost of {way.cost})'


def _decoding(analysis: Analysis, builder: Builder) -> str:
    """What a decode step reads, by what it is, and at what rate that can be read."""
    parts = {
        'weights': shard_bytes(builder.decoding_weights()),
        "prompts' keys and values": shard_bytes(builder.prefix(builder.rows()[0])),
        "responses'": shard_bytes(builder.cache()),
    }
    total, tokens = sum(parts.values()), analysis.program.num_tokens
    per_token = total * analysis.topology.num_chips / tokens
    shown = ', '.join(f'{name} {decimal(size)}B' for name, size in parts.items())
    line = (
        f'A decode step reads at least {decimal(total)}B a chip ({shown}), '
        f'{decimal(per_token)}B for each token'
    )
    bandwidth = analysis.topology.chip.memory_bandwidth
    if not bandwidth:
        return f'{line}.'
    return (
        f"{line}; at the chip's {decimal(bandwidth)}B/s that is "
        f'{1e3 * total / bandwidth:.3g} ms, {tokens * bandwidth / total:,.0f} tokens/s '
        'in all.'
    )
