"""The README's example prints what its comments say, and its files are there.

python -m tests.readme_test     # writes the tables of estimators into README.md
"""

import contextlib
import io
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from passk_jax.advantages import ESTIMATORS, all_parameters

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLES = re.compile(
    r'(?<=<!-- begin: python -m tests.readme_test -->\n).*(?=\n<!-- end -->)', re.DOTALL
)


def test_the_example_prints_what_its_comments_say():
    (code,) = re.findall(
        r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.DOTALL
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    said = [text.partition(':')[0] for text in re.findall(r'# (.*)', code)]
    assert printed.getvalue().splitlines() == said


def test_every_link_leads_somewhere():
    text = (ROOT / 'README.md').read_text()
    links = [link for link in re.findall(r'\]\(([^)]+)\)', text) if '://' not in link]
    assert links
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def estimator_tables() -> str:
    """The tables of estimators and of their parameters, in Markdown, as in README."""
    estimators = (
        (
            _code(name),
            _code(*row.reads),
            _code(*(p.name for p in row.parameters)),
            row.summary.replace('``', '`'),
        )
        for name, row in ESTIMATORS.items()
    )
    parameters = (
        (_code(p.name), _code(p.default), p.allowed(), p.doc) for p in all_parameters()
    )
    return '\n\n'.join(
        (
            _table(
                ('`advantage.name`', 'reads', 'parameters', 'what it is'), estimators
            ),
            _table(('`advantage.…`', 'default', 'values', 'what it is'), parameters),
        )
    )


def _code(*values: Any) -> str:
    return ', '.join(f'`{value}`' for value in values)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = (head, ['---'] * len(head), *rows)
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def test_the_tables_of_estimators_are_those_of_the_rows():
    (found,) = TABLES.findall((ROOT / 'README.md').read_text())
    assert found == estimator_tables(), 'run python -m tests.readme_test'


def test_a_row_of_a_table_says_what_the_row_of_the_estimator_says():
    lines = estimator_tables().splitlines()
    (row,) = [line for line in lines if line.startswith('| `bootstrap_sampling`')]
    cells = [cell.strip() for cell in row.strip('|').split('|')]
    assert cells[1] == '`correct`, `key`'
    assert cells[2] == '`k`, `num_groups`, `aggregation`'
    assert cells[3].startswith('Pass@k by bootstrap sampling')
    (row,) = [line for line in lines if line.startswith('| `k`')]
    assert row.startswith('| `k` | `4` | a whole number in [1, N] | size of a group')


if __name__ == '__main__':
    page = ROOT / 'README.md'
    page.write_text(TABLES.sub(lambda _: estimator_tables(), page.read_text()))
