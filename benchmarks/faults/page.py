"""The page of the fault campaign, made of its record."""

import collections
from collections.abc import Sequence
from typing import Any

from benchmarks.faults.striking import KILLS, LAST
from passk_jax.report.arms import markdown_table

_HEAD = """# The fault campaign

```bash
python -m benchmarks.faults.campaign
```

Runs of `tests/tiny.py`, {last} steps, a save every second one, an evaluation every
fourth, started by `launch_tpu.sh loop` with one or two processes and struck by several
faults, one after another. The loop restarts them. After a full disk it stops with
status 2, and the campaign frees the disk and gives the loop's command again. A run is
equal if its parameters and optimizer state, metrics, diagnostics, rollouts and
evaluations are those of a run that nothing struck, bit for bit, and its metrics have
each step once. The trainer pauses for 50 ms while it verifies, so that a signal can
reach it there; process 0 is the coordinator.
"""


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown of all finished runs.

    Args:
        rows: of the record, one for each run.
    """
    struck = [(row, fault) for row in rows for fault in row['struck']]
    kills = sum(fault['kind'] in KILLS for _, fault in struck)
    equal = sum(row['equal'] for row in rows)
    again = sum(row['computed_again'] for row in rows)
    restarts = sum(row['restarts'] for row in rows)
    commits = sorted({(row['revision'] or 'unknown')[:7] for row in rows})
    dates = sorted(row['date'][:10] for row in rows)
    lines = [
        _HEAD.format(last=LAST),
        f'**{kills} kills** (SIGKILL or SIGTERM) among {len(struck)} faults in '
        f'{len(rows)} runs; **{equal} of {len(rows)} runs ended equal**. '
        f'{restarts} restarts; {again} steps were computed again. Commit '
        f'{", ".join(commits)}, {" to ".join(sorted({*dates[:1], *dates[-1:]}))}, seed '
        f'{", ".join(sorted({str(row["seed"]) for row in rows}))}.',
        '',
        *_by_kind(struck),
        '',
        '*Half written* counts faults that left a checkpoint without its commit. '
        '*Done* is the number of steps that the metrics held.',
        '',
        *_by_run(rows),
        '',
        'Every fault is in [faults.jsonl](faults.jsonl).',
        '',
    ]
    if not any(fault['kind'] == 'full disk' for _, fault in struck):
        lines.insert(-2, 'No disk was filled: that needs a small tmpfs.\n')
    return '\n'.join(lines)


def _by_kind(struck: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    groups = collections.defaultdict(list)
    for row, fault in struck:
        whom = fault['process'] if row['processes'] > 1 else ''
        if fault['kind'] in ('truncate', 'flip', 'damage commit'):
            whom = 'all' if row['processes'] > 1 else ''
        key = fault['kind'], row['processes'], whom, fault['moment']
        groups[key].append((row, fault))
    table = [
        [
            _NAMES[kind],
            f'{processes}' + (f', process {whom}' if whom else ''),
            moment,
            str(len(group)),
            ' '.join(str(fault['step']) for _, fault in group),
            str(sum(bool(fault['half_written']) for _, fault in group)),
            f'{sum(row["equal"] for row, _ in group)} of {len(group)}',
        ]
        for (kind, processes, whom, moment), group in sorted(groups.items())
    ]
    head = ['fault', 'processes', 'during', 'faults', 'done', 'half written', 'equal']
    return markdown_table(head, table)


_NAMES = {
    'kill': 'SIGKILL',
    'kill all': 'SIGKILL of all',
    'terminate': 'SIGTERM',
    'pause': 'SIGSTOP, SIGCONT',
    'truncate': 'SIGKILL, newest checkpoint truncated',
    'flip': 'SIGKILL, newest checkpoint with flipped bits',
    'damage commit': 'SIGKILL, newest commit.json with flipped bits',
    'full disk': 'disk full',
}


def _by_run(rows: Sequence[dict[str, Any]]) -> list[str]:
    table = [
        [
            row['run'],
            ', '.join(f'{fault["kind"]} at {fault["step"]}' for fault in row['struck']),
            str(row['restarts']),
            str(row['computed_again']),
            (row['revision'] or 'unknown')[:7],
            'yes' if row['equal'] else 'no: ' + ', '.join(row['differences'][:4]),
        ]
        for row in sorted(rows, key=lambda row: (row['run'], row['date']))
    ]
    head = ['run', 'faults', 'restarts', 'steps again', 'commit', 'equal']
    return markdown_table(head, table)
