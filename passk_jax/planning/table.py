"""Writes the figures of a plan as a Markdown table with a column for each program.

Padded columns make the table legible in a terminal. Amounts are for one device; memory
is in binary units and traffic in decimal ones, as chip makers state them.
experiments/plans/README.md explains each row.
"""

from collections.abc import Sequence

from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.fits import Fit
from passk_jax.planning.hlo_costs import Costs

_NONE = '-'
_PREFIXES = ('', 'k', 'M', 'G', 'T', 'P')


def render(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows of equal length as a Markdown table; the first is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = [widths[0] * '-', *((width - 1) * '-' + ':' for width in widths[1:])]
    lines = []
    for first, *tail in (rows[0], rule, *rows[1:]):
        cells = [cell.rjust(n) for cell, n in zip(tail, widths[1:], strict=True)]
        lines.append(f'| {" | ".join([first.ljust(widths[0]), *cells])} |\n')
    return ''.join(lines)


def plan_rows(analyses: Sequence[Analysis], edges: Sequence[Fit]) -> list[list[str]]:
    """Makes the rows of the table, except those without a figure."""
    kinds = {kind for x in analyses if x.costs for kind in x.costs.collectives}
    columns = [
        _column(analysis, edge, sorted(kinds))
        for analysis, edge in zip(analyses, edges, strict=True)
    ]
    rows = [[label, *(column[label] for column in columns)] for label in columns[0]]
    unit = 'a chip' if analyses[0].topology.chip.devices == 1 else 'a device'
    heading = [unit, *(analysis.program.name for analysis in analyses)]
    return [heading, *(row for row in rows if set(row[1:]) != {_NONE})]


def _column(analysis: Analysis, edge: Fit, kinds: Sequence[str]) -> dict[str, str]:
    memory, costs, bound = analysis.memory, analysis.costs, analysis.bound
    tokens = analysis.program.num_tokens
    return {
        'arguments': _binary(memory.arguments),
        'new outputs': _binary(memory.outputs),
        'temporaries': _binary(memory.temporaries),
        'resident besides': _binary(memory.resident),
        'total': _binary(memory.total),
        'limit': _binary(memory.limit or None),
        'fits': _fits(memory),
        'longest response': _format_integer(edge.longest_response),
        'largest batch': _format_integer(edge.largest_batch),
        'FLOP': decimal(analysis.flops),
        'of them useful': _percent(analysis.useful_share or None),
        'memory traffic': f'{decimal(costs.memory)}B' if costs else _NONE,
        **{kind: _collective(costs, kind) for kind in kinds},
        **{
            f'{name} alone': _time(analysis.seconds.get(name))
            for name in ('compute', 'memory', 'network')
        },
        'time, at least': _time(bound),
        'MFU, at most': _percent(analysis.utilization_bound),
        'tokens/s, at most': _format_integer(
            tokens / bound if bound and tokens else None
        ),
    }


def progress(analysis: Analysis) -> str:
    """Writes the most important figures of a program in a line."""
    memory, name = analysis.memory, analysis.program.name
    limit = f' of {_binary(memory.limit)}' if memory.limit else ''
    words = [f'{name}: {_binary(memory.total)}{limit}, {decimal(analysis.flops)}FLOP']
    if analysis.costs is not None:
        words.append(f'{decimal(analysis.costs.memory)}B of memory traffic')
        words.append(f'{decimal(analysis.costs.network)}B received')
    if analysis.bound:
        words.append(f'at least {_time(analysis.bound)}')
    return ', '.join(words)


def decimal(value: float) -> str:
    """Formats a number with three digits and a decimal prefix: ``'15.2 G'``."""
    power = 0
    while abs(value) >= 999.5 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f'{value:.3g} {_PREFIXES[power]}'


def _binary(size: float | None) -> str:
    if size is None:
        return _NONE
    for unit in ('B', 'KiB', 'MiB'):
        if abs(size) < 1024:
            return f'{size:.2f} {unit}'
        size /= 1024
    return f'{size:.2f} GiB'


def _collective(costs: Costs | None, kind: str) -> str:
    if costs is None or kind not in costs.collectives:
        return _NONE
    traffic = costs.collectives[kind]
    return f'{traffic.count:,.0f} x, {decimal(traffic.size)}B'


def _fits(memory: Memory) -> str:
    if not memory.limit:
        return _NONE
    if memory.fits and memory.temporaries is None:
        return 'but for temporaries'
    return 'yes' if memory.fits else 'NO'


def _format_integer(number: float | None) -> str:
    return _NONE if number is None else f'{number:,.0f}'


def _percent(share: float | None) -> str:
    return _NONE if share is None else f'{100 * share:.0f} %'


def _time(seconds: float | None) -> str:
    if seconds is None:
        return _NONE
    return f'{seconds:.3g} s' if seconds >= 1 else f'{1e3 * seconds:.3g} ms'
