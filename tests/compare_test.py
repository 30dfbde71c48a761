"""The command that compares runs, on small evaluations."""

import dataclasses
import json

import pytest

from passk_jax import compare
from passk_jax.errors import InputError
from passk_jax.evaluation import comparison
from tests import legible


def evaluation(directory, counts, *, step=5, split='test', n=4):
    path = directory / 'evaluation' / f'{split}_step_{step:08d}.jsonl'
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{'problem_id': i, 'n': n, 'c': c} for i, c in enumerate(counts)]
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return path


@pytest.fixture
def runs(tmp_path):
    for name, counts in {'a0': [1, 0, 2], 'a1': [1, 1, 2], 'b0': [3, 0, 4]}.items():
        evaluation(tmp_path / name, [0, 0, 0], step=1)
        evaluation(tmp_path / name, counts)
    evaluation(tmp_path / 'b1', [4, 1, 3])
    (tmp_path / 'young').mkdir()
    (tmp_path / 'young' / 'config.json').write_text('{}')
    return tmp_path


def test_the_table_has_the_last_evaluations(runs, capsys):
    compare.main([f'{runs}/a0', f'new={runs}/b0'])
    out = capsys.readouterr().out
    # 3/12 and 7/12.
    assert '| Pass@1 | 0.250 [' in out
    assert '| 0.583 [' in out
    assert '| +0.333 [' in out
    assert '| only new | 0 |' in out
    assert 'a0/evaluation/test_step_00000005.jsonl' in out
    assert ', seeds |' not in out
    assert '- new, 1 run, n = 4: ' in out


def test_arms_that_were_not_sampled_alike_are_named(runs, capsys):
    for name, temperature in (('a0', 1.0), ('b0', 0.5)):
        config = {'eval': {'temperature': temperature, 'top_k': 0, 'every': 2}}
        config |= {'sampling': {'max_response_tokens': 8, 'temperature': temperature}}
        (runs / name / 'config.json').write_text(json.dumps(config))
    compare.main([f'old={runs}/a0', f'new={runs}/b0', f'unknown={runs}/b1'])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        'The arms were not sampled alike: temperature is 1.0 in old, 0.5 in new.'
    )
    # The settings that the command writes beside its records come first.
    file = evaluation(runs / 'b0', [3, 0, 4], split='again')
    settings = {'eval': {'temperature': 1.0, 'top_k': 0}, 'max_response_tokens': 16}
    file.with_suffix('.json').write_text(json.dumps(settings))
    compare.main([f'old={runs}/a0', f'new={file}'])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        'The arms were not sampled alike: max_response_tokens is 8 in old, 16 in new.'
    )
    compare.main([f'old={runs}/a0', f'unknown={runs}/b1'])
    assert 'sampled alike' not in capsys.readouterr().out


def test_seeds_are_paired_and_everything_is_written(runs, capsys):
    output, figure = runs / 'c.json', runs / 'c.png'
    compare.main(
        [f'base={runs}/a0,{runs}/a1', f'new={runs}/b0,{runs}/b1'],
        output=str(output),
        figure=str(figure),
    )
    assert '| new - base, seeds |' in capsys.readouterr().out
    record = json.loads(output.read_text())
    measure = record['measures']['pass_at_1'][1]
    assert measure['by_seed'] == pytest.approx([7 / 12, 8 / 12])
    assert measure['over_seeds']['mean'] == pytest.approx(4 / 12)
    assert record['solved']['all'] == [0, 1, 2]
    assert [len(values) for values in record['arms'].values()] == [2, 2]
    assert figure.read_bytes().startswith(b'\x89PNG')


def test_the_figure_says_what_its_bands_are_and_what_the_seeds_say(runs):
    seeds = [f'base={runs}/a0,{runs}/a1', f'new={runs}/b0,{runs}/b1']
    with legible.texts() as written:
        compare.main(seeds, figure=str(runs / 'seeds.png'))
    legible.check(written)
    text = '\n'.join(x.text for x in written)
    assert 'bands: 95 % intervals over problems (bootstrap)' in text
    # 3/12 and 4/12, 7/12 and 8/12.
    assert 'new minus base over 2 seeds' in text
    assert 'Pass@1 +0.333 [+0.333, +0.333], Pass@4' in text
    assert text.count('share of problems') == 3
    with legible.texts() as written:
        compare.main([f'a={runs}/a0', f'b={runs}/b0'], figure=str(runs / 'one.png'))
    legible.check(written)
    text = '\n'.join(x.text for x in written)
    assert 'bands: 95 % intervals' in text
    assert 'seeds' not in text


def test_every_arm_has_a_marker_of_its_own(runs):
    arms = [
        compare.read_named(f'{name}={runs}/{name}', split='test', step=None)
        for name in ('a0', 'b0', 'b1')
    ]
    arms = compare.make_arms(arms)
    passed, gaps, covered = compare.panels(arms, comparison.compare(arms))
    for panel in (passed, covered):
        assert len({line.marker for line in panel.series}) == 3
    # The line at zero has none.
    assert [bool(line.marker) for line in gaps.series] == [True, True, False]


def test_the_panels_have_the_values_of_the_table(runs):
    pairs = [
        compare.read_named(f'{runs}/{name}', split='test', step=None)
        for name in ('a0', 'b0')
    ]
    compared = comparison.compare(compare.make_arms(pairs))
    passed, gaps, covered = compare.panels(compare.make_arms(pairs), compared)
    at_1 = compared['pass_at_1']
    assert [line.y[0] for line in passed.series] == [x.value.mean for x in at_1]
    (gap, _) = gaps.series
    assert (gap.y[0], gap.low[0], gap.high[0]) == dataclasses.astuple(
        at_1[1].over_problems
    )
    # The shares of right responses are 3/4, 0 and 1, or 1/4, 0 and 1/2.
    at_half = comparison.COVERAGES.index(0.5)
    assert [line.y[at_half] for line in covered.series] == pytest.approx([1 / 3, 2 / 3])


def test_a_step_and_a_file_can_be_named(runs, capsys):
    compare.main([f'{runs}/a0', f'{runs}/b0'], step=1)
    assert '| Pass@1 | 0.000 [' in capsys.readouterr().out
    file = evaluation(runs / 'other', [4, 4, 4])
    compare.main([f'{runs}/a0', str(file)])
    assert '| 1.000 [' in capsys.readouterr().out


def test_what_would_lose_an_output_or_a_name_is_refused(runs):
    arms, same = [f'{runs}/a0', f'{runs}/b0'], str(runs / 'same.out')
    with pytest.raises(InputError, match='are one file'):
        compare.main(arms, output=same, figure=f'{runs}/a0/../same.out')
    with pytest.raises(InputError, match='must be RUN or NAME=RUN'):
        compare.main([f'={runs}/a0', f'{runs}/b0'])
    with pytest.raises(InputError, match="'' must be RUN or"):
        compare.main(['', f'{runs}/b0'])
    with pytest.raises(InputError, match='no arm to compare'):
        compare.make_arms([])
    # A split is a name and no pattern.
    with pytest.raises(InputError, match=r"no evaluation of split '\*'"):
        compare.main(arms, split='*')


def test_an_equals_sign_in_a_directory_is_no_name(runs):
    evaluation(runs / 'k=8', [1, 1, 1])
    arm = compare.read_arm(f'{runs}/k=8', split='test', step=None)
    assert arm.name == f'{runs}/k=8'


@pytest.mark.parametrize(
    ('name', 'options', 'message'),
    [
        ('none', {}, r'none is not a run directory: .*config.json is absent'),
        ('young', {}, r"has no evaluation of split 'test'; it has \[\]"),
        ('a0', {'split': 'train'}, "it has .'test_step_00000001', "),
        ('a0', {'step': 4}, "of split 'test' of step 4; it has"),
    ],
)
def test_an_evaluation_that_is_not_there(runs, name, options, message):
    with pytest.raises(InputError, match=message):
        compare.main([f'{runs}/{name}', f'{runs}/b0'], **options)


def test_a_damaged_record_is_named(runs):
    file = evaluation(runs / 'bad', [1, 1, 1])
    file.write_text(file.read_text() + '{"problem_id": 9}\n')
    with pytest.raises(InputError, match='record 4 has no whole problem_id, n, c'):
        compare.main([f'{runs}/a0', f'{runs}/bad'])


def test_only_last_evaluations_of_one_step_are_compared(runs):
    evaluation(runs / 'a0', [1, 1, 1], step=9)
    with pytest.raises(
        InputError, match='are of different steps: give --step, or name'
    ):
        compare.main([f'{runs}/a0', f'{runs}/b0'])
    with pytest.raises(InputError, match='are of different steps'):
        compare.main([f'a={runs}/a0,{runs}/a1', f'b={runs}/b0,{runs}/b1'])
    compare.main([f'{runs}/a0', f'{runs}/b0'], step=5)
    last = runs / 'a0' / 'evaluation' / 'test_step_00000009.jsonl'
    compare.main([str(last), f'{runs}/b0'])


def test_a_run_is_not_compared_with_itself(runs):
    for arms in ([f'a={runs}/a0,{runs}/a0', f'b={runs}/b0,{runs}/b1'], ['a0', 'a0']):
        arguments = [
            arm if '=' in arm else f'{i}={runs}/{arm}' for i, arm in enumerate(arms)
        ]
        with pytest.raises(InputError, match='name a run once'):
            compare.main(arguments)


def test_runs_are_paired_by_their_seeds(runs, capsys):
    for name, seed in {'a0': 3, 'a1': 4, 'b0': 4, 'b1': 3}.items():
        (runs / name / 'config.json').write_text(json.dumps({'seed': seed}))
    output = runs / 'c.json'
    arms = [f'a={runs}/a0,{runs}/a1,', f'b={runs}/b0,{runs}/b1']
    compare.main(arms, output=str(output))
    record = json.loads(output.read_text())
    assert [path.split('/')[-3] for path in record['arms']['b']] == ['b1', 'b0']
    (runs / 'b1' / 'config.json').write_text('{"seed": 5}')
    with pytest.raises(
        InputError, match=r'a has the seeds \[3, 4\] and b has \[4, 5\]'
    ):
        compare.main(arms)


def test_one_problem_has_no_interval(tmp_path, capsys):
    for name in 'ab':
        evaluation(tmp_path / name, [1])
    output = tmp_path / 'c.json'
    files = {'output': str(output), 'figure': str(tmp_path / 'c.png')}
    compare.main([f'{tmp_path}/a', f'{tmp_path}/b'], **files)
    assert 'NaN' not in output.read_text()
    (of_arm, _) = json.loads(output.read_text())['measures']['pass_at_1']
    assert of_arm['value'] == {'mean': 0.25, 'low': None, 'high': None}
    assert '| Pass@1 | 0.250 | 0.250 | +0.000 |' in capsys.readouterr().out


def test_what_cannot_be_written_is_said_at_once(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, 'read_named', None)
    with pytest.raises(FileNotFoundError, match=r"nodir/c\.json'"):
        compare.main(
            [f'{runs}/a0', f'{runs}/b0'], output=str(tmp_path / 'nodir/c.json')
        )


def test_other_numbers_of_responses_and_runs_are_said(runs, capsys):
    evaluation(runs / 'b0', [3, 0, 4], n=8)
    compare.main([f'a={runs}/a0,{runs}/a1', f'b={runs}/b0'])
    out = capsys.readouterr().out
    assert 'No seeds are paired: a has 2 runs and b 1.' in out
    assert 'The numbers of responses n differ' in out
    assert 'problems solved by' not in out
    assert '- b, 1 run, n = 8: ' in out
