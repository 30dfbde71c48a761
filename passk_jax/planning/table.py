"""The figures of a plan as a Markdown table with a column for each program.

Padded columns make the table legible in a terminal. Amounts are for one device; memory
is in binary units and traffic in decimal ones, as chip makers state them.
:func:`progress` is a line of the most important figures.
experiments/plans/README.md explains each row.
"""

from collections.abc import Callable, Sequence

from passk_jax.planning.analysis import Analysis
from passk_jax.planning.fits import Fit

_NONE = '-'
_PREFIXES = ('', 'k', 'M', 'G', 'T', 'P')

_MEMORY: dict[str, Callable[[Analysis], float | None]] = {
    'arguments': lambda analysis: analysis.memory.arguments,
    'new outputs': lambda analysis: analysis.memory.outputs,
    'temporaries': lambda analysis: analysis.memory.temporaries,
    'resident besides': lambda analysis: analysis.memory.resident,
    'total': lambda analysis: analysis.memory.total,
    'limit': lambda analysis: analysis.memory.limit or None,
}
_WORK: dict[str, Callable[[Analysis], str]] = {
    'FLOP': lambda analysis: decimal(analysis.flops),
    'of them useful': lambda analysis: _percent(analysis.useful_share or None),
    'memory traffic': lambda analysis: _traffic(
        analysis.costs.memory if analysis.costs else None
    ),
}
_BOUNDS: dict[str, Callable[[Analysis], str]] = {
    'compute alone': lambda analysis: _time(analysis.seconds.get('compute')),
    'memory alone': lambda analysis: _time(analysis.seconds.get('memory')),
    'network alone': lambda analysis: _time(analysis.seconds.get('network')),
    'time, at least': lambda analysis: _time(analysis.bound),
    'MFU, at most': lambda analysis: _percent(analysis.utilization_bound),
    'tokens/s, at most': lambda analysis: _whole(_rate(analysis)),
}


def render(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is the heading, all rows are of equal length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = [widths[0] * '-', *((width - 1) * '-' + ':' for width in widths[1:])]
    lines = []
    for first, *rest in (rows[0], rule, *rows[1:]):
        cells = [cell.rjust(n) for cell, n in zip(rest, widths[1:], strict=True)]
        lines.append(f'| {" | ".join([first.ljust(widths[0]), *cells])} |\n')
    return ''.join(lines)


def plan_rows(analyses: Sequence[Analysis], edges: Sequence[Fit]) -> list[list[str]]:
    """The rows of the table, except those without a figure."""
    rows = [
        [label, *(_binary(size(analysis)) for analysis in analyses)]
        for label, size in _MEMORY.items()
    ]
    rows.append(['fits', *map(_fits, analyses)])
    rows.append(['longest response', *(_whole(e.longest_response) for e in edges)])
    rows.append(['largest batch', *(_whole(e.largest_batch) for e in edges)])
    rows += [[label, *map(cell, analyses)] for label, cell in _WORK.items()]
    kinds = {
        kind
        for analysis in analyses
        if analysis.costs
        for kind in analysis.costs.collectives
    }
    for kind in sorted(kinds):
        rows.append(
            [
                kind,
                *(_collective(analysis, kind) for analysis in analyses),
            ]
        )
    rows += [[label, *map(cell, analyses)] for label, cell in _BOUNDS.items()]
    unit = 'a chip' if analyses[0].topology.chip.devices == 1 else 'a device'
    heading = [unit, *(analysis.program.name for analysis in analyses)]
    return [heading, *(row for row in rows if set(row[1:]) != {_NONE})]


def progress(analysis: Analysis) -> str:
    """The most important figures of a program, in a line."""
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
    """A number of three figures with a decimal prefix: ``'15.2 G'``."""
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


def _collective(analysis: Analysis, kind: str) -> str:
    if analysis.costs is None or kind not in analysis.costs.collectives:
        return _NONE
    traffic = analysis.costs.collectives[kind]
    return f'{traffic.count:,.0f} x, {decimal(traffic.size)}B'


def _fits(analysis: Analysis) -> str:
    memory = analysis.memory
    if not memory.limit:
        return _NONE
    if memory.fits and memory.temporaries is None:
        return 'but for temporaries'
    return 'yes' if memory.fits else 'NO'


def _rate(analysis: Analysis) -> float | None:
    if not analysis.bound or not analysis.program.num_tokens:
        return None
    return analysis.program.num_tokens / analysis.bound


def _traffic(size: float | None) -> str:
    return _NONE if size is None else f'{decimal(size)}B'


def _whole(number: float | None) -> str:
    return _NONE if number is None else f'{number:,.0f}'


def _percent(share: float | None) -> str:
    return _NONE if share is None else f'{100 * share:.0f} %'


def _time(seconds: float | None) -> str:
    if seconds is None:
        return _NONE
    return f'{seconds:.3g} s' if seconds >= 1 else f'{1e3 * seconds:.3g} ms'
