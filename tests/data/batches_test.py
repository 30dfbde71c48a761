import collections
import itertools

import numpy as np
import pytest

from passk_jax.data.batches import (
    evaluation_batches,
    make_batches,
    read_problems,
    subset,
)
from passk_jax.types import Problem


def _source(count, longest=7):
    """Problem i has a prompt of 1 + i % longest letters, the i-th of the alphabet."""
    return [
        Problem(i, chr(97 + i % 26) * (1 + i % longest), {}, 'any')
        for i in range(count)
    ]


def _encode(problem):
    return [ord(c) for c in problem.prompt]


def _batches(source, **changes):
    limits = {'max_prompt_tokens': 16, 'overlong': 'drop'}
    limits |= {name: changes.pop(name) for name in limits.keys() & changes.keys()}
    problems = read_problems(source, _encode, **limits)
    return make_batches(problems, **({'num_prompts': 4, 'seed': 0} | changes))


def _ids(batches, steps):
    return [[problem.id for problem in batches[step][0]] for step in steps]


def _flat_ids(batches, steps):
    return list(itertools.chain.from_iterable(_ids(batches, steps)))


def test_a_batch_holds_the_tokens_of_its_problems():
    problems, prompts = _batches(_source(20))[3]
    assert prompts.tokens.shape == (4, 8)
    assert prompts.tokens.dtype == prompts.lengths.dtype == np.int32
    assert prompts.problem_ids.tolist() == [problem.id for problem in problems]
    for row, problem in enumerate(problems):
        length = prompts.lengths[row]
        assert prompts.tokens[row, :length].tolist() == _encode(problem)
        assert not prompts.tokens[row, length:].any()


def test_a_batch_is_a_pure_function_of_its_step():
    source = _source(22)
    steps = list(range(30))
    forward = _ids(_batches(source), steps)
    backward = _ids(_batches(source), steps[::-1])[::-1]
    assert forward == backward
    assert _ids(_batches(source), [17]) == [forward[17]]


def test_every_epoch_visits_each_problem_once_in_another_order():
    batches = _batches(_source(20))
    epochs = [_flat_ids(batches, range(5 * e, 5 * e + 5)) for e in range(4)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_no_problem_is_twice_in_a_batch():
    batches = _batches(_source(7), num_prompts=5)
    assert all(len(set(ids)) == 5 for ids in _ids(batches, range(50)))


def test_what_an_epoch_leaves_over_differs_by_epoch():
    batches = _batches(_source(6), num_prompts=4)
    left_over = {frozenset(range(6)) - set(ids) for ids in _ids(batches, range(40))}
    assert len(left_over) > 5


def test_another_seed_is_another_order_in_every_epoch():
    source = _source(20)
    orders = {
        (seed, epoch): tuple(
            _flat_ids(_batches(source, seed=seed), range(5 * epoch, 5 * epoch + 5))
        )
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(set(orders.values())) == 16


def _remaining(batches, step, seed=(0, 6)):
    """Ids of the batches of others, and of those in them that are no filling."""
    filled, new = [], []
    for (problems, prompts), is_other in batches.draw_others(step, seed=seed):
        ids = [problem.id for problem in problems]
        assert prompts.problem_ids.tolist() == ids
        filled.append(ids)
        new.append([id for id, other in zip(ids, is_other, strict=True) if other])
    return filled, new


def test_the_others_are_all_but_the_steps_own_each_once():
    batches = _batches(_source(22))
    for step in range(12):
        step_ids, (filled, new) = _ids(batches, [step])[0], _remaining(batches, step)
        assert [len(ids) for ids in new] == [4, 4, 4, 4, 2]
        assert sorted(itertools.chain(*new)) == sorted(set(range(22)) - set(step_ids))
        assert all(len(set(ids)) == 4 for ids in filled)
        # The last one is filled up with what was tried.
        assert filled[-1] == [*new[-1], *step_ids[:2]]


def test_the_others_have_an_order_of_the_steps_own():
    source = _source(22)
    orders = [_remaining(_batches(source), step)[0] for step in range(8)]
    again = [_remaining(_batches(source), step)[0] for step in reversed(range(8))]
    assert orders == again[::-1]
    orders.append(_remaining(_batches(source), 0, seed=(1, 6))[0])
    flat = [list(itertools.chain(*order)) for order in orders]
    for one, other in itertools.combinations(flat, 2):
        common = set(one[:18]) & set(other[:18])
        assert [x for x in one if x in common] != [x for x in other if x in common]


def test_where_all_problems_are_the_steps_own_there_are_no_others():
    assert _remaining(_batches(_source(4)), 3) == ([], [])


def test_overlong_prompts_are_dropped_and_counted():
    batches = _batches(_source(21), max_prompt_tokens=4)
    assert (batches.num_problems, batches.tokenized.num_dropped) == (12, 9)
    assert batches.tokenized.width == 4
    seen = _flat_ids(batches, range(3))
    assert sorted(seen) == [i for i in range(21) if 1 + i % 7 <= 4]


def test_overlong_prompts_are_an_error_if_so_asked():
    with pytest.raises(ValueError, match='problem 4 has 5 tokens'):
        _batches(_source(21), max_prompt_tokens=4, overlong='error')
    batches = _batches(_source(21), max_prompt_tokens=7, overlong='error')
    assert batches.tokenized.num_dropped == 0


@pytest.mark.parametrize(
    ('longest', 'limit', 'width'),
    [(7, 100, 8), (8, 100, 8), (9, 100, 16), (9, 10, 10), (129, 500, 256)],
)
def test_the_width_is_the_longest_prompt_rounded_up(longest, limit, width):
    batches = _batches(_source(200, longest), max_prompt_tokens=limit)
    assert batches.tokenized.width == width
    shapes = {batches[step][1].tokens.shape for step in range(60)}
    assert shapes == {(4, width)}


@pytest.mark.parametrize(
    ('source', 'changes', 'message'),
    [
        ([], {}, 'no problems'),
        (_source(3), {}, r'^train\.num_prompts=4 is more than the 3 problems'),
        (_source(9), {'max_prompt_tokens': 1}, r'the 2 problems.*7 were dropped'),
        (_source(9), {'max_prompt_tokens': 0}, 'all 9 prompts are longer'),
        (_source(9), {'num_prompts': 0}, 'num_prompts=0'),
        (_source(9), {'weights': {'any': 3, 'a': 1}}, "^train.num_prompts=4: part 'a'"),
        ([Problem(5, '', {}, 'any')] * 4, {}, 'problem 5 has no tokens'),
    ],
)
def test_impossible_requests_are_refused(source, changes, message):
    with pytest.raises(ValueError, match=message):
        _batches(source, **changes)


def test_a_negative_step_is_refused():
    with pytest.raises(IndexError, match='negative'):
        _batches(_source(9))[-1]


def _evaluation(source, **changes):
    options = {
        'batch_size': 4,
        'num_problems': 0,
        'max_prompt_tokens': 16,
        'overlong': 'drop',
    }
    return evaluation_batches(source, _encode, **(options | changes))


@pytest.mark.parametrize(('count', 'num_batches'), [(1, 1), (8, 2), (9, 3)])
def test_evaluation_covers_each_problem_once_in_order(count, num_batches):
    batches = _evaluation(_source(count))
    assert len(batches) == num_batches
    for _ in range(2):
        seen = []
        for (problems, prompts), valid in batches:
            assert prompts.tokens.shape == (4, batches.tokenized.width)
            assert prompts.problem_ids.tolist() == [p.id for p in problems]
            seen += [problem.id for problem in problems[:valid]]
        assert seen == list(range(count))


def _by_size(counts):
    """Problems in the order of their category, as sources have them."""
    categories = [name for name, count in counts.items() for _ in range(count)]
    return [Problem(i, 'ab', {}, name) for i, name in enumerate(categories)]


def test_a_subset_has_its_share_of_every_category_and_no_more_of_the_first_ones():
    counts = {'5x5': 40, '7x7': 40, '9x9': 20}
    chosen = subset(_by_size(counts), 25)
    by_category = collections.Counter(problem.category for problem in chosen)
    assert by_category == {'5x5': 10, '7x7': 10, '9x9': 5}
    ids = [problem.id for problem in chosen]
    assert ids == sorted(set(ids))
    # The largest gap between chosen ones of a category would be 30 at its end.
    assert max(np.diff([i for i in ids if i < 40])) < 20
    assert subset(_by_size(counts), 100) == _by_size(counts)


def test_a_larger_subset_contains_a_smaller_one_and_none_depends_on_anything():
    source = _by_size({'5x5': 7, '7x7': 30})
    chosen = [
        {problem.id for problem in subset(source, size)} for size in (1, 8, 20, 36)
    ]
    assert [len(subset) for subset in chosen] == [1, 8, 20, 36]
    assert chosen[0] < chosen[1] < chosen[2] < chosen[3]
    assert sorted(chosen[1]) == [0, 5, 12, 17, 20, 25, 34, 35]


def test_evaluation_can_go_through_a_subset():
    source = _source(20)
    batches = _evaluation(source, num_problems=6, max_prompt_tokens=5)
    seen = [p.id for (problems, _), valid in batches for p in problems[:valid]]
    chosen = subset(source, 6)
    ids = [problem.id for problem in chosen if len(problem.prompt) <= 5]
    assert seen == ids
    assert (batches.num_problems, batches.num_dropped) == (len(ids), 6 - len(ids))


def test_problems_that_are_too_long_are_counted_by_category():
    source = [
        Problem(i, 'ab' * len(name), {}, name)
        for i, name in enumerate(['b', 'aa', 'a', 'aa', 'b', 'bb'])
    ]
    assert _evaluation(source, max_prompt_tokens=2).dropped == {'aa': 2, 'bb': 1}
    assert _evaluation(source).dropped == {}


@pytest.mark.parametrize(
    ('source', 'changes', 'message'),
    [
        ([], {}, 'no problems'),
        (_source(3), {'num_problems': 4}, 'num_problems=4 of the 3'),
        (_source(9), {'max_prompt_tokens': 2, 'overlong': 'error'}, 'problem 2 has 3'),
    ],
)
def test_impossible_evaluations_are_refused(source, changes, message):
    with pytest.raises(ValueError, match=message):
        _evaluation(source, **changes)
