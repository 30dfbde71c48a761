"""A report is made of any run directory, alone and without a network."""

import json
import re

import pytest

from passk_jax.report import panels
from passk_jax.report.write import write_curves, write_report
from tests.slow import slow_values

_CONFIG = {
    'name': 'tiny',
    'seed': 0,
    'task': {'name': 'maze', 'params': {}},
    'sampling': {'num_rollouts': 8},
    'advantage': {'name': 'pass_at_k', 'k': 4},
    'train': {'steps': 20, 'num_prompts': 4},
}


def _write_lines(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))


@pytest.fixture
def workdir(tmp_path):
    """A short run, as training leaves it."""
    (tmp_path / 'config.json').write_text(json.dumps(_CONFIG))
    (tmp_path / 'git.json').write_text('{"revision": "0123456789abcdef"}')
    rows = []
    for step in range(21):
        if step % 10 == 0:
            for split in ('validation', 'test'):
                values = {f'pass_at_{k}': 0.1 * k + step / 100 for k in (1, 2, 4, 8)}
                values['entropy'] = 0.5
                rows.append({'step': step, 'split': split, **values})
        if step < 20:
            rows.append({'step': step, 'split': 'train', 'reward': step / 40})
    _write_lines(tmp_path / 'metrics.jsonl', rows)
    _write_lines(
        tmp_path / 'timing.jsonl',
        [{'step': s, 'seconds': 3.0, 'tokens_per_second': 1e4} for s in range(20)],
    )
    for step in (0, 10):
        responses = [
            {
                'step': step,
                'problem_id': problem,
                'category': '3x1',
                'prompt': 'find a path',
                'data': {'maze': 'S.E'},
                'rollout': n,
                'response': 'RR' if n < right else 'RL' * n,
                'parsed': 'RR' if n < right else 'RL' * n,
                'correct': n < right,
                'reward': float(n < right),
                'advantage': 0.5,
                'length': 3,
            }
            for problem, right in ((1, 8), (2, 0), (3, 4))
            for n in range(8)
        ]
        _write_lines(tmp_path / 'rollouts' / f'step_{step:08d}.jsonl', responses)
    return tmp_path


def _html(workdir):
    return write_report(workdir).read_text()


def test_a_report_shows_results_curves_the_advantage_and_the_responses(workdir):
    html = _html(workdir)
    for text in (
        '<h1>tiny</h1>',
        '20 of 20',
        '0123456789',
        '1.0 min, 10,000 tokens/s',
        '<h3>validation</h3>',
        '<h3>test</h3>',
        'step 20, from step 0',
        'Distinct of 4 wrong answers',
        'answer_diversity in metrics.jsonl, is distinct wrong answers over',
        'Advantage, pass_at_k (k=4)',
        'Sampled at step 10',
        'Sampled at step 0',
        'maze right',
        'maze wrong',
    ):
        assert text in html, text
    assert html.count('class="chart"') == 9


def test_a_report_shows_the_pictures_of_a_problem_once(workdir):
    (file, *_) = sorted((workdir / 'rollouts').glob('*.jsonl'))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    address = 'data:image/png;base64,AAAA'
    bad = ['javascript:x', 'https://a.org/b.png', 3, f'{address}"><script>']
    rows[0]['pictures'] = [address, *bad]
    rows[8]['pictures'] = 'data:image/png;base64,BBBB'
    _write_lines(file, rows)
    html = _html(workdir)
    assert html.count(f'<img src="{address}"') == 1
    for text in ('javascript', 'a.org', '"><script', 'BBBB'):
        assert text not in html


def test_a_report_says_where_the_time_went(workdir):
    assert 'of which' not in _html(workdir)
    first = {'step': 0, 'seconds': 9.0, 'start_seconds': 8.0, 'decode_seconds': 1.0}
    later = {'decode_seconds': 1.0, 'update_seconds': 2.99, 'wait_seconds': 0.01}
    rows = [first, *({'step': s, 'seconds': 4.0} | later for s in (1, 2))]
    _write_lines(workdir / 'timing.jsonl', rows)
    html = _html(workdir)
    # Without the first step, and without what is next to nothing.
    assert 'update 75 %, decode 25 %<' in html
    assert '<h2>Time</h2>' in html
    assert html.count('aria-label="Seconds of a step"') == 1
    assert 'MFU' not in html


def test_a_report_shows_the_utilization_of_chips_whose_peak_is_known(workdir):
    assert '<h2>Time</h2>' not in _html(workdir)
    rates = {
        'seconds': 4.0,
        'tokens_per_second': 6.0,
        'tokens_per_second_per_chip': 3.0,
    }
    rows = [{'step': s, **rates, 'mfu': 0.2345} for s in range(3)]
    _write_lines(workdir / 'timing.jsonl', rows)
    html = _html(workdir)
    assert '0.2 min, 6 tokens/s, 23.4 % MFU<' in html
    for title in ('Tokens a second and chip', 'MFU (%)'):
        assert f'aria-label="{title}"' in html
    assert 'MFU is model FLOPs utilization' in html


def test_a_report_says_which_stages_a_run_has(workdir):
    assert 'from step' not in _html(workdir).partition('<h2')[0]
    stages = {
        'last': {'start': 15, 'loss': {'clip_high': 0.3}},
        'middle': {'start': 8, 'advantage': {'name': 'pass_at_1'}},
    }
    text = json.dumps({**_CONFIG, 'stages': stages})
    (workdir / 'config.json').write_text(text)
    stage_names = (
        'pass_at_k (k = 4), pass_at_1 from step 8, pass_at_k (k = 4) from step 15'
    )
    html = _html(workdir)
    assert stage_names in html
    assert '<title>tiny, pass_at_k (k = 4), pass_at_1, pass_at_k (k = 4)<' in html
    # The curve of each estimator once.
    assert html.count('<h2>Advantage in use') == 2
    assert '<h2>Advantage in use, from step 8 on</h2>' in html


def test_stages_that_differ_in_k_alone_are_told_apart(workdir):
    stages = {'later': {'start': 8, 'advantage': {'k': 8}}}
    (workdir / 'config.json').write_text(json.dumps({**_CONFIG, 'stages': stages}))
    html = _html(workdir)
    assert 'pass_at_k (k = 4), pass_at_k (k = 8) from step 8' in html
    assert 'Advantage, pass_at_k (k=8)' in html


def test_a_stage_with_the_estimator_of_the_one_before_is_not_named_again(workdir):
    stages = {'later': {'start': 8, 'loss': {'clip_high': 0.3}}}
    (workdir / 'config.json').write_text(json.dumps({**_CONFIG, 'stages': stages}))
    head = _html(workdir).partition('<h2')[0]
    assert head.count('pass_at_k (k = 4)') == 2
    assert 'from step' not in head


def test_a_report_loads_nothing(workdir):
    html = _html(workdir)
    assert not re.search(r'https?://|<script|<link|@import|url\((?!#)|src=', html)


def test_problems_with_right_and_wrong_responses_come_first(workdir):
    html = _html(workdir)
    places = [html.index(f'Problem {i}<') for i in (3, 1, 2)]
    assert places == sorted(places)


def test_the_estimators_peak_is_told_in_words(workdir):
    assert 'It is largest at accuracy 0.25' in _html(workdir)


def test_what_the_curve_says_is_shown(workdir, monkeypatch):
    curve = {
        'name': 'mine',
        'note': 'a <note>',
        'accuracy': [0.0, 0.5, 1.0],
        'positive': [0.0, 1.0, 0.0],
        'negative': [0.0, -1.0, 0.0],
        'eta': [0.0, 7.0, 0.0],
        'weight': [1.25, 1.0, 0.0],
    }
    monkeypatch.setattr(panels, 'curve_in_use', lambda run, section: curve)
    html = _html(workdir)
    assert 'Advantage, mine' in html
    assert 'a &lt;note&gt;' in html
    assert 'It is largest at accuracy 0.5: 7.' in html
    assert 'Where p is 0 it is 1.25.' in html


@pytest.mark.parametrize(
    'missing',
    [
        ('metrics.jsonl',),
        *slow_values(
            [
                ('config.json',),
                ('git.json', 'timing.jsonl'),
                ('rollouts/step_00000000.jsonl',),
                ('rollouts/step_00000000.jsonl', 'rollouts/step_00000010.jsonl'),
            ]
        ),
        ('metrics.jsonl', 'config.json', 'git.json', 'timing.jsonl'),
    ],
)
def test_a_run_that_is_young_or_lacks_files_has_a_report_too(workdir, missing):
    for name in missing:
        (workdir / name).unlink()
    assert '</html>' in _html(workdir)
    assert write_curves(workdir).read_bytes().startswith(b'\x89PNG')


def test_only_a_first_evaluation_is_enough(workdir):
    lines = (workdir / 'metrics.jsonl').read_text().splitlines(keepends=True)
    (workdir / 'metrics.jsonl').write_text(lines[0])
    html = _html(workdir)
    assert '<th>step 0</th>' in html
    write_curves(workdir)


def test_a_broken_dump_is_shown_as_far_as_it_goes(workdir):
    dump = workdir / 'rollouts' / 'step_00000010.jsonl'
    dump.write_text(dump.read_text()[:-100] + '\n[]\n{"problem_id": 3}\n')
    assert 'Problem 3<' in _html(workdir)


def test_the_same_run_gives_the_same_files(workdir):
    first = (_html(workdir), write_curves(workdir).read_bytes())
    assert (_html(workdir), write_curves(workdir).read_bytes()) == first


NAMES = [
    '$', 'a$b$', '$\\frac{$', '$x^2$', '\\alpha', '_hidden', '%', '#667085', '<b>&amp;',
    'a\nb', '\x00', '\x1b[31m', '\ud83d', '\u2028', '\u202egnp', '\u200b', '²', '{0}',
    '数学', 'x' * 5000, ' ', "'\"", '-->', ']]>', '%d', '../..',
]  # fmt: skip


@pytest.mark.filterwarnings('ignore:Glyph')
@pytest.mark.parametrize(
    'name', slow_values(NAMES, quick=['$\\frac{$', '\x00', '\u202egnp', '../..'])
)
def test_a_name_is_drawn_as_a_text_whatever_it_is(workdir, name, caplog):
    """Of the run, a category, a split and an estimator."""
    changed = {
        'name': name,
        'advantage': {'name': name, 'k': 4},
        'task': {'name': name, 'params': {name: name}},
        'stages': {'later': {'start': 8, 'advantage': {'name': name + '2'}}},
    }
    (workdir / 'config.json').write_text(json.dumps(_CONFIG | changed))
    rows = []
    for step in range(3):
        parts = {f'{part}/reward': 0.5 for part in (name, 'other')}
        parts |= {f'{part}/problems': 1.0 for part in (name, 'other')}
        rows.append({'step': step, 'split': 'train', 'reward': 0.5} | parts)
        values = {'pass_at_1': 0.5, f'{name}/pass_at_1': 0.5, 'other/pass_at_1': 0.5}
        values |= {'flips_solved': 1, 'flips_unsolved': 2}
        rows.append({'step': step, 'split': name, **values})
    _write_lines(workdir / 'metrics.jsonl', rows)
    diagnosed = {f'gradient_{what}/{name}': 1.0 for what in ('signal', 'noise')}
    diagnosed |= {'gradient_signal/rloo': 1.0, 'gradient_noise/rloo': 1.0}
    diagnosed |= {f'gradient_product/{name}/rloo': 0.5}
    lines = [{'step': step} | diagnosed for step in range(4)]
    _write_lines(workdir / 'diagnostics.jsonl', lines)
    html = _html(workdir)
    assert not caplog.records
    assert html.count('class="chart"') == 8 + 5 + 1
    assert write_curves(workdir).read_bytes().startswith(b'\x89PNG')
    if name.isalnum() and len(name) < 100:
        assert f'>{name}</text>' in html


@pytest.mark.parametrize(
    'config',
    [
        {'stages': []},
        {'stages': {'a': 1, 'b': {'start': 'x'}}},
        {'advantage': 'rloo'},
        {'advantage': {'name': ['x']}},
        {'sampling': {'num_rollouts': 'eight'}},
        {'sampling': {'num_rollouts': 10**400}},
        {'train': 7},
        {'task': []},
    ],
)
def test_a_damaged_config_leaves_what_does_not_depend_on_it(workdir, config, caplog):
    (workdir / 'config.json').write_text(json.dumps(_CONFIG | config))
    html = _html(workdir)
    assert '<h3>validation</h3>' in html
    assert 'aria-label="Training reward"' in html
    # What could not be drawn is said in both places.
    assert ('class="card empty">no ' in html) == bool(caplog.records)


def test_a_directory_that_is_not_there_or_takes_no_files_is_an_error(tmp_path):
    with pytest.raises(ValueError, match='no run directory'):
        write_report(tmp_path / 'nowhere')
    with pytest.raises(ValueError, match=r'cannot write /proc/report.html'):
        write_report('/proc')
