r"""Tests the verdicts on mathematics against three oracles.

    python -m benchmarks.oracles --data=../shared/data

``--data`` has ``math_train/``, ``aime/`` and ``olymmath/`` with files of JSON lines, as
configs/math.py reads them.

1. Right stays right: every gold in forty spellings (spellings.py).
2. Wrong stays wrong: every gold with 54 changes of its value (perturbations.py).
3. With ``--alone``, math-verify alone judges the same golds and answers.

A table has a line for each spelling and each change: the answers, how many have the
right verdict here, and how many by math-verify alone. Failures follow, six of a kind.
"""

import argparse
import collections
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping

from benchmarks.perturbations import PERTURBATIONS
from benchmarks.spellings import REWRITINGS
from passk_jax.verifiers import golds as gold_texts
from passk_jax.verifiers import mathematics
from passk_jax.verifiers.pool import Pool

MATH_VERIFY = 'benchmarks.oracles:math_verify_alone'
_FILES = 'math_train/*.jsonl', 'aime/*.jsonl', 'olymmath/*.jsonl'


def read_golds(data: pathlib.Path, *, every: int = 1) -> list[str]:
    """Reads the different golds of the files, in order."""
    golds: dict[str, None] = {}
    for pattern in _FILES:
        for path in sorted(data.glob(pattern)):
            for line in path.read_text().splitlines():
                gold = str(json.loads(line)['answer'])
                if not gold_texts.is_sentinel(gold):
                    golds[gold] = None
    return list(golds)[::every]


def changed(
    golds: Iterable[str], changes: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    """Yields the name of each change, each gold to which it applies, and the answer."""
    for gold in golds:
        for name, change in changes.items():
            answer = change(gold)
            if answer is not None:
                yield name, gold, answer


def math_verify_alone(gold: str, answer: str) -> bool:
    """Asks math-verify, with its defaults, about a gold and an answer in a box."""
    import math_verify

    parsed = [
        math_verify.parse(text, parsing_timeout=None)
        for text in (f'${gold}$', rf'$\boxed{{{answer}}}$')
    ]
    return bool(math_verify.verify(*parsed, timeout_seconds=None))


def report(
    golds: list[str], changes: Mapping[str, object], *, right: bool, pools: list[Pool]
) -> str:
    """Writes the table of one oracle, with a line for all together."""
    rows = list(changed(golds, changes))
    pairs = [(gold, answer) for _, gold, answer in rows]
    ours = [verdict.correct for verdict in mathematics.compare(pairs, pool=pools[0])]
    peer_judgments = (
        [judged.correct for judged in pools[1].judge(pairs)] if pools[1:] else ours
    )
    counts = collections.Counter(name for name, _, _ in rows)
    good, peers, failures = collections.Counter(), collections.Counter(), {}
    for (name, gold, answer), our, their in zip(
        rows, ours, peer_judgments, strict=True
    ):
        good[name] += our == right
        peers[name] += their == right
        if our != right:
            failures.setdefault(name, []).append(f'{gold!r}: {answer!r}')
    lines = [
        f'| {name} | {counts[name]} | {good[name]} | {peers[name]} |'
        for name in changes
    ]
    total = f'| all | {len(rows)} | {sum(good.values())} | {sum(peers.values())} |'
    share = f'{100 * sum(good.values()) / len(rows):.3f} %'
    examples = [f'  {name}: {len(some)}: {some[:6]}' for name, some in failures.items()]
    return '\n'.join([*lines, total, share, *examples])


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--data', required=True, type=pathlib.Path)
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument(
        '--every', type=int, default=1, help='take one of so many golds'
    )
    parser.add_argument('--alone', action='store_true', help='math-verify alone, too')
    flags = parser.parse_args()
    golds = read_golds(flags.data, every=flags.every)
    functions = [mathematics.EQUALITY, *([MATH_VERIFY] if flags.alone else [])]
    pools = [
        Pool(
            function,
            workers=flags.workers,
            deadline_s=mathematics.DEADLINE_S,
            memory_bytes=mathematics.MEMORY_BYTES,
            max_failure_share=1.0,
        )
        for function in functions
    ]
    print(f'{len(golds)} different golds')
    print(report(golds, REWRITINGS, right=True, pools=pools))
    print(report(golds, PERTURBATIONS, right=False, pools=pools))
    for pool in pools:
        print(pool.failures, pool.calls)
        pool.close()


if __name__ == '__main__':
    main()
