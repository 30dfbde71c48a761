import dataclasses

import pytest

from passk_jax.errors import InputError
from passk_jax.sweeps import TRAININGS, Arm, Stage, Sweep, estimator_arms
from passk_jax.sweeps.declarations import check_seeds, unit_of


def make_sweep(**changes) -> Sweep:
    """Two arms, of which the second has two stages."""
    stages = (Stage('then', {'advantage.name': 'pass_at_1'}),)
    values = {
        'name': 'mine',
        'title': 'Mine',
        'arms': (
            Arm('a', 'A', 'tests/tiny.py'),
            Arm('b', 'B', 'tests/tiny.py', {'advantage.k': 3}, stages),
        ),
        'baseline': 'a',
        'seeds': (0, 1),
        'measures': {'pass_at_1': 'Pass@1'},
        'split': 'test',
        'curves': 'validation',
    }
    return Sweep(**(values | changes))


def arm(**changes) -> tuple[Arm, ...]:
    return (dataclasses.replace(make_sweep().arms[0], **changes),)


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'name': 'a/b'}, "name='a/b' must be of letters"),
        ({'arms': arm(name='../a')}, "name='../a' must be"),
        ({'baseline': 'c'}, r"baseline='c' is none of the arms \['a', 'b'\]"),
        ({'contrasts': (('a', 'c'),)}, r"contrasts: \['c'\] are none of the arms"),
        ({'title': 3}, 'title=3 must be a text'),
        ({'seeds': 0}, 'seeds=0 must be a tuple of int'),
        ({'arms': (('a', 'A', 'x.py'),)}, 'must be a tuple of Arm'),
        ({'contrasts': ('ab',)}, r"contrasts=\('ab',\) must be a tuple of tuple"),
        ({'measures': ['pass_at_1']}, r"measures=\['pass_at_1'\] must be a dict of t"),
        ({'measures': {'pass_at_1': 1}}, 'measures=.* must be a dict of texts'),
        ({'arms': arm(label=2)}, 'arm a: label=2 must be a text'),
        ({'arms': arm(overrides={1: 2})}, 'arm a: overrides=.* texts as keys'),
        (
            {'arms': arm(stages=(Stage('s', ('advantage.k', 2)),))},
            'arm a, stage s: overrides=.* must be a dict with texts as keys',
        ),
        ({'contrasts': (('a',),)}, r"contrasts: \('a',\) must be a pair of two arms"),
        ({'contrasts': (('a', 'a'),)}, r"contrasts: \('a', 'a'\) must be a pair"),
        (
            {'arms': (*make_sweep().arms[:1], *arm(name='b'))},
            r"labels of arms: \['A'\] more than once",
        ),
        ({'arms': make_sweep().arms * 2}, r"arms: \['a', 'b'\] more than once"),
        ({'seeds': ()}, 'seeds is empty'),
        ({'seeds': (0, True)}, 'seed=True must be a whole number'),
        ({'measures': {}}, 'measures is empty'),
        ({'arms': arm(overrides={'seed': 1})}, r"arm a: the sweep sets \['seed'\]"),
        (
            {'arms': arm(stages=(Stage('x', {'init.kind': 'scratch'}),))},
            r"the sweep sets \['init.kind'\]",
        ),
        ({'arms': arm(stages=(Stage('', {}),))}, "name='' must be"),
        ({'arms': arm(stages=(Stage('x', {}),) * 2)}, r"stages of a: \['x'\] more"),
    ],
)
def test_what_is_wrong_is_named(changes, words):
    assert make_sweep()
    with pytest.raises(InputError, match=words):
        make_sweep(**changes)


def test_lists_and_ranges_are_tuples_too():
    sweep = make_sweep()
    lists = {'arms': [*sweep.arms], 'seeds': range(2), 'contrasts': [['a', 'b']]}
    assert make_sweep(**lists).seeds == range(2)


def test_the_first_stage_may_begin_where_it_likes():
    overrides = {'init.kind': 'checkpoint', 'init.checkpoint': 'runs/x'}
    assert make_sweep(arms=arm(overrides=overrides))


def test_a_seed_is_a_whole_number():
    check_seeds([0, 7])
    with pytest.raises(InputError, match=r'seed=0\.5'):
        check_seeds([0.5])


def test_the_unit_of_a_measure_is_that_of_its_kind():
    shares = ('pass_at_1', 'u/pass_at_32', 'pass_hat_4', 'maj_at_8', 'cover_at_0.5')
    assert {unit_of(measure) for measure in shares} == {'share of problems'}
    assert unit_of('entropy') == 'nats a token'
    assert unit_of('rarefied_diversity') == 'answers'
    assert unit_of('response_length') == ''


def test_an_arm_is_named_after_its_estimator():
    both = estimator_arms(TRAININGS, 'tests/tiny.py', {'advantage.k': 3})
    assert [(x.name, x.label) for x in both] == [*TRAININGS.items()]
    assert [x.config for x in both] == ['tests/tiny.py'] * 2
    overrides = {'advantage.name': 'pass_at_k', 'advantage.k': 3}
    assert both[1].overrides == overrides
