"""The pages' links lead somewhere, and their intervals follow from the results.

``statements.toml`` says what each interval of the text is: a difference that
``experiments/interval.py`` computes, or the page of ``experiments/results`` or the
notebook that has it. Tables are compared with the tables that the sweeps have made, and
the results of ``experiments/*.py`` with what these make again of the sweeps' rows.
"""

import functools
import importlib
import itertools
import pathlib
import re
import tomllib

import numpy as np
import pytest
import scipy.stats

from experiments import decoding, interval
from passk_jax.evaluation import metrics
from passk_jax.sweeps.rows import read_rows
from tests.tiny import ROOT

RESULTS = ROOT / 'experiments' / 'results'
_PAGES = ROOT / 'experiments' / 'pages'
PAGES = (
    *('README.md', 'docs/results.md', 'experiments/README.md'),
    *('experiments/paper.md', 'experiments/papers.md'),
    *sorted(f'experiments/pages/{path.name}' for path in _PAGES.glob('*.md')),
)
DOCS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / 'docs').glob('*.md'))
LINKED = (
    *sorted({*PAGES, *DOCS}),
    *('experiments/LOG.md', 'experiments/plans/README.md'),
)
STATEMENTS = tomllib.loads((ROOT / 'tests' / 'statements.toml').read_text())
# Text writes .021 and tables 0.021.
NUMBER = r'[+-]?(?:[1-9]\d*)?\.\d+'
INTERVAL = re.compile(rf'{NUMBER} \[{NUMBER}, {NUMBER}\]')
CELL = re.compile(r'[+-]\d\.\d+ \[[+-]\d\.\d+, [+-]\d\.\d+\]')


def anchors(page: pathlib.Path) -> set[str]:
    """The places in a page that its headings make."""
    titles = re.findall(r'^#+ (.*)', page.read_text(), re.MULTILINE)
    slugs = [re.sub(r'[^\w -]', '', title) for title in titles]
    return {slug.lower().replace(' ', '-') for slug in slugs}


@pytest.mark.parametrize('name', LINKED)
def test_every_link_leads_somewhere(name):
    page = ROOT / name
    targets = re.findall(r'\]\(([^)]+)\)', page.read_text())
    links = [link for link in targets if '://' not in link]
    assert links
    for link in links:
        path, _, place = link.partition('#')
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not place or place in anchors(target), link


def test_every_picture_of_the_results_is_shown():
    pages = ''.join((ROOT / name).read_text() for name in LINKED)
    for path in RESULTS.glob('*.png'):
        assert f'({path.name})' in pages or f'/{path.name})' in pages, path.name


def one_line(text: str) -> str:
    return re.sub(r'\s+', ' ', text)


def plain(text: str) -> str:
    """Without what text and tables write differently: plus signs and leading zeros."""
    return re.sub(r'(?<!\d)0\.', '.', text.replace('+', '').replace('−', '-'))


@functools.cache
def page_of(name: str) -> str:
    """A page in one line, without the tables of sweeps."""
    lines = (ROOT / name).read_text().splitlines()
    return one_line(' '.join(line for line in lines if not CELL.search(line)))


def format_interval(values: np.ndarray, stated: str) -> str:
    """An interval with the digits of one that is said."""
    digits = [len(number.partition('.')[2]) for number in re.findall(NUMBER, stated)]
    interval = metrics.paired_interval(values, np.zeros_like(values))
    mean, low, high = (f'{x:.{n}f}' for x, n in zip(interval, digits, strict=True))
    return plain(f'{mean} [{low}, {high}]')


def cases() -> list[tuple[str, str, str]]:
    """Page, interval as it is said, and what it is."""
    rows = []
    for name in PAGES:
        for says, what in STATEMENTS.get(name, {}).items():
            stated = INTERVAL.findall(says)
            assert len(stated) == len(what), says
            rows += [(name, *pair) for pair in zip(stated, what, strict=True)]
    return rows


@pytest.mark.parametrize(('name', 'stated', 'what'), cases())
def test_an_interval_is_the_one_that_it_says_it_is(name, stated, what):
    if what.endswith(('.md', '.ipynb')):
        assert plain(stated) in plain((RESULTS / what).read_text())
        return
    values = np.array([*interval.evaluate(what, results=RESULTS).values()])
    assert format_interval(values, stated) == plain(stated)


@pytest.mark.parametrize('name', PAGES)
def test_every_interval_of_the_text_is_stated(name):
    page = page_of(name)
    for says in sorted(STATEMENTS.get(name, ()), key=len, reverse=True):
        assert says in page, says
        page = page.replace(says, '')
    unstated = [page[max(0, m.start() - 60) : m.end()] for m in INTERVAL.finditer(page)]
    assert not unstated


def test_the_first_table_counts_the_seeds_of_its_rows():
    name = 'experiments/README.md'
    row = rf'\| ({INTERVAL.pattern} \| {INTERVAL.pattern}) \| (\d+)[ ,]'
    rows = re.findall(row, (ROOT / name).read_text())
    assert rows
    for cells, count in rows:
        [what] = [x[0] for says, x in STATEMENTS[name].items() if cells in says]
        # The families have an interval over families and seeds.
        if what != 'families_crossed.md':
            assert len(interval.evaluate(what, results=RESULTS)) == int(count), cells


def p_value(what: str) -> float:
    values = [*interval.evaluate(what, results=RESULTS).values()]
    return scipy.stats.ttest_1samp(values, 0.0).pvalue


def test_so_many_intervals_of_the_table_exclude_zero():
    statements = STATEMENTS['docs/results.md']
    cells = [says for says in statements if '<br>' in says]
    whats = [what for cell in cells for what in statements[cell]]
    # The table's estimators were chosen among all of its sweeps.
    candidates = {
        f'{measure} of {arm} - pass_at_1 in {name}'
        for name in {what.rpartition(' in ')[2] for what in whats}
        for arm in {row['arm'] for row in read_rows(RESULTS / f'{name}.jsonl.gz')}
        for measure in ('pass_at_1', 'pass_at_32')
        if arm != 'pass_at_1'
    }
    assert candidates >= {*whats}
    by_p = sorted(candidates, key=p_value)
    # Holm: the smallest p against .05 / n, the next against .05 / (n - 1), ...
    count = len(by_p)
    rejected = itertools.takewhile(
        lambda pair: p_value(pair[1]) < 0.05 / (count - pair[0]), enumerate(by_p)
    )
    remaining = {what for _, what in rejected} & {*whats}
    assert all(what.startswith('pass_at_32 ') for what in remaining)
    assert not [what for what in remaining if 'puzzles' in what]
    alone = sum(p_value(what) < 0.05 for what in whats)
    page = page_of('docs/results.md')
    assert f"Of the table's {len(whats)} intervals {alone} exclude zero" in page
    assert f'for all {count} comparisons, {len(remaining)} are left' in page
    assert 'all of them gains in Pass@32 on mazes' in page


def test_three_seeds_often_miss_what_five_show():
    what = 'pass_at_1 of pass_at_k - pass_at_1 in passk_vs_pass1'
    values = [*interval.evaluate(what, results=RESULTS).values()]

    def format_share(count: int) -> str:
        highs = [
            metrics.paired_interval(np.array(some), np.zeros(count))[2]
            for some in itertools.combinations(values, count)
        ]
        return f'{sum(high < 0 for high in highs):,} of {len(highs):,}'

    sentence = (
        f'three show it in {format_share(3)} choices, and five in {format_share(5)}'
    )
    assert sentence in page_of('experiments/pages/passk_vs_pass1.md')


@pytest.mark.parametrize(
    ('name', 'settings', 'page'),
    [
        ('break_even', {}, 'break_even.md'),
        *(
            ('decoding', {'setting': setting}, f'decoding_{setting}.md')
            for setting in decoding.SETTINGS
            if (RESULTS / f'decoding_{setting}.jsonl.gz').exists()
        ),
        ('families', {}, 'families_crossed.md'),
        ('frontier', {}, 'frontier.md'),
        ('horizon', {}, 'horizon_steps.md'),
        ('knobs', {'setting': 'medium'}, 'knobs_medium_fronts.md'),
        ('knobs', {'setting': 'hard'}, 'knobs_hard_fronts.md'),
        ('larger_k', {}, 'larger_k.md'),
        ('last_three', {}, 'last_three.md'),
        ('new_mazes', {}, 'new_mazes.md'),
        ('out_of_domain', {}, 'smollm2_out_of_domain.md'),
        ('warm_starts', {}, 'warm_starts.md'),
    ],
)
def test_a_page_is_what_its_script_makes_of_the_rows(name, settings, page, tmp_path):
    for path in RESULTS.glob('*.jsonl*'):
        (tmp_path / path.name).symlink_to(path)
    script = importlib.import_module(f'experiments.{name}')
    script.main(**settings, results=str(tmp_path))
    assert (tmp_path / page).read_text() == (RESULTS / page).read_text()


def rows_of(path: pathlib.Path) -> list[list[str]]:
    """The cells of the rows of all tables of a page."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('|')]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in lines]


@pytest.mark.parametrize('name', PAGES)
def test_the_rows_of_tables_are_those_that_the_sweeps_have_made(name):
    rows = [row for path in RESULTS.glob('*.md') for row in rows_of(path)]
    for row in rows_of(ROOT / name):
        cells = [cell for cell in row[1:] if CELL.search(cell)]
        if cells:
            same = [other for other in rows if other[0] == row[0]]
            assert any({*cells} <= {*other} for other in same), row
