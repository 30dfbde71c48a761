"""``experiments/frontier.py`` on results whose answer is known."""

import pytest
from absl import flags

from experiments import frontier
from passk_jax.cli import config_file
from passk_jax.cli.flags import parse
from passk_jax.report import scatter
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.rows import compress_rows
from tests import legible, tiny

NAMES = ('estimators', 'estimators_medium', 'estimators_easy', 'puzzles_estimators')
# On easy mazes one arm has no runs, and another too few.
LACKING = {('nsr', 0), ('nsr', 1), ('nsr', 2), ('maxrl', 1)}


def rows_of(sweep, size):
    """The number of an arm is what it loses in Pass@1 and gains in Pass@32."""
    for number, arm in enumerate(sweep.arms):
        for seed in (0, 1, 2):
            if size == 2 and (arm.name, seed) in LACKING:
                continue
            noise = seed * number / 100
            values = {
                'pass_at_1': 0.9 - 0.01 * number + noise,
                'pass_at_32': 0.1 * size + 0.01 * number + noise,
                'maj_at_32': 0.5,
            }
            for split, step, factor in (('test', 0, 9), ('test', 4, 1), ('x', 4, 9)):
                row = {'arm': arm.name, 'seed': seed, 'split': split, 'step': step}
                yield row | {name: factor * value for name, value in values.items()}


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """The directory with the table and the figure, the points, and the texts."""
    directory = tmp_path_factory.mktemp('results')
    drawn = []

    def draw_points(points, ax):
        drawn.append((points, ax))
        scatter.draw_points(points, ax)

    with pytest.MonkeyPatch.context() as patch, legible.texts() as texts:
        patch.chdir(tiny.ROOT)
        patch.setattr(frontier, 'draw_points', draw_points)
        for size, config in enumerate(frontier._SWEEPS.values()):
            sweep = config_file.call(config, 'get_sweep', returns=Sweep)
            rows = [*rows_of(sweep, size)][::-1]
            path = directory / f'{sweep.name}.jsonl.gz'
            path.write_bytes(compress_rows(rows))
        frontier.main(results=str(directory))
    return directory, drawn, texts


def test_the_command_takes_its_flags(tmp_path):
    arguments = ['frontier', f'--results={tmp_path}']
    assert parse(frontier.main, arguments, flags.FlagValues()) == {
        'results': str(tmp_path)
    }


def test_it_reads_the_results_of_four_sweeps(written):
    directory, drawn, _ = written
    assert sorted(path.name for path in directory.glob('*.gz')) == sorted(
        f'{name}.jsonl.gz' for name in NAMES
    )
    titles = [ax.get_title(loc='left') for _, ax in drawn]
    assert titles == [f'{setting}, 3 seeds' for setting in frontier._SWEEPS]


def test_the_table_has_the_differences_of_each_setting(written):
    text = (written[0] / 'frontier.md').read_text()
    tables = [part for part in text.split('\n\n') if part.startswith('|')]
    assert len(tables) == len(frontier._SWEEPS)
    # The second arm: .01 in each seed, and a hundredth of the seed's number more.
    row = next(line for line in tables[0].splitlines() if '`pass_at_k`' in line)
    cells = [cell.strip() for cell in row.split('|')[2:5]]
    assert cells[0].startswith('+0.000 [-0.02')
    assert cells[1].startswith('+0.020 [-0.00')
    assert cells[2] == '+0.000 [+0.000, +0.000]'
    for size, table in enumerate(tables):
        assert f'| `pass_at_1` | 0.900 | {0.1 * size:.3f} | 0.500 |' in table


def test_what_is_not_done_is_left_out_and_said_to_be(written):
    text = (written[0] / 'frontier.md').read_text()
    note = 'Without maxrl, nsr: they have no last evaluation of every seed.'
    assert text.count('Without') == text.count(note) == 1
    before, after = text.split(note)
    assert before.count('`nsr`') == 1
    assert before.count('`maxrl`') == 2
    assert after.count('`maxrl`') == 1


def test_named_are_those_that_matter_and_the_others_are_grey(written):
    for points, _ in written[1]:
        labeled = {point.name: point for point in points if point.name}
        assert labeled.keys() <= frontier._STYLES.keys()
        assert len({point.marker for point in labeled.values()}) == len(labeled)
        assert len({point.color for point in labeled.values()}) == len(labeled)
        grey = [point for point in points if not point.name]
        # Those with names are drawn over them.
        assert not any(point.name for point in points[: len(grey)])
        assert all(point.color == frontier._GREY for point in grey)
    hard, medium = (points for points, _ in written[1][:2])
    assert len(hard) > len(medium) == 7
    (of_maxrl,) = (point for point in hard if point.name == 'maxrl')
    assert of_maxrl.x[0] == pytest.approx(0.0)
    # The eleventh after the baseline.
    assert of_maxrl.y[0] == pytest.approx(0.22)
    assert of_maxrl.x[1] < of_maxrl.x[0] < of_maxrl.x[2]


def test_every_estimator_is_drawn_or_listed(monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    by_setting = {}
    # Some of the real results are outliers.
    for setting, config in frontier._SWEEPS.items():
        sweep = config_file.call(config, 'get_sweep', returns=Sweep)
        results = tiny.ROOT / 'experiments' / 'results'
        by_setting[setting] = frontier.read_last(sweep, results, frontier._MEASURES)
    drawn = []
    monkeypatch.setattr(
        frontier, 'draw_points', lambda points, ax: drawn.append((points, ax))
    )
    frontier.draw(by_setting)
    listed = [[name for text in ax.texts for name in _listed(text)] for _, ax in drawn]
    assert {'nsr', 'rloo'} <= {*listed[0]}
    assert 'set_level' in listed[2]
    for (points, _), names, last in zip(
        drawn, listed, by_setting.values(), strict=True
    ):
        assert len(points) + len(names) == len(last.values)
        labels = {point.name for point in points if point.name}
        assert not labels & {*names}
        assert {*names} <= last.values.keys()


def _listed(text):
    words = text.get_text().replace('\n', ' ')
    return words.removeprefix('outside: ').split(', ') if 'outside' in words else []


def test_it_can_be_read_in_readme(written):
    legible.check(written[2])
    assert (written[0] / 'frontier.png').read_bytes().startswith(b'\x89PNG')
    names = [text.text for text in written[2]]
    assert names.count('pass_at_1') == 4
    assert names.count('maxrl') == 3
