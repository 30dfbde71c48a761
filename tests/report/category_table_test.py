from passk_jax.report.category_table import category_table


def _rows(**counts):
    """Category -> the number of right responses of four to each of its problems."""
    return [
        {'category': category, 'n': 4, 'c': c}
        for category, cs in counts.items()
        for c in cs
    ]


def _table(evaluations, *, groups=None, **left_out):
    """With the numbers of problems that were left out of each task, by category."""
    without = {task: {'too long': left_out.get(task, {})} for task in evaluations}
    return category_table(evaluations, groups=groups or {}, left_out=without)


def test_a_table_by_hand():
    evaluations = {'a': _rows(x=(0, 4), y=(1,)), 'b': _rows(z=(2,))}
    assert _table(evaluations, a={'y': 2, 'w': 3}) == (
        '| task | category | problems | too long | Pass@1 | Pass@4 |\n'
        '| --- | --- | --- | --- | --- | --- |\n'
        '| a | x | 2 | 0 | 50.0 | 50.0 |\n'
        '| a | y | 1 | 2 | 25.0 | 100.0 |\n'
        '| a | w | 0 | 3 | - | - |\n'
        '| a | all problems | 3 | 5 | 41.7 | 66.7 |\n'
        '| a | mean of categories | 3 | 5 | 37.5 | 75.0 |\n'
        '| b | z | 1 | 0 | 50.0 | 100.0 |\n'
    )


def test_a_group_is_a_row_of_all_its_problems():
    evaluations = {'a': _rows(x=(0, 4), y=(1,), z=(4,))}
    left_out = {'x': 1, 'y': 2, 'w': 4}
    groups = {'a': {'x': 'G', 'y': 'G', 'w': 'G'}}
    text = _table(evaluations, groups=groups, a=left_out)
    assert '| a | G | 3 | 7 | 41.7 | 66.7 |\n' in text
    assert '| a | z | 1 | 0 | 100.0 | 100.0 |\n' in text
    assert '| a | mean of categories | 4 | 7 | 70.8 | 83.3 |\n' in text


def test_k_is_what_every_problem_has_responses_for():
    evaluations = {'a': _rows(x=(1,)), 'b': [{'category': 'x', 'n': 9, 'c': 3}]}
    assert 'Pass@4 |' in _table(evaluations)


def test_with_one_response_there_is_one_column():
    text = _table({'a': [{'category': 'x', 'n': 1, 'c': 1}]})
    assert text.startswith('| task | category | problems | too long | Pass@1 |\n')
    assert '| a | x | 1 | 0 | 100.0 |\n' in text


def test_numbers_that_nobody_knows_are_not_zero():
    rows = {'a': _rows(x=(2,), y=(2,)), 'b': _rows(x=(2,))}
    without = {'a': {'one': {'y': 3}, 'two': None}, 'b': {'one': {}, 'two': {'x': 1}}}
    text = category_table(rows, groups={}, left_out=without)
    assert text.startswith('| task | category | problems | one | two | Pass@1 |')
    assert '| a | y | 1 | 3 | ? | 50.0 | 100.0 |\n' in text
    assert '| a | all problems | 2 | 3 | ? | 50.0 | 100.0 |\n' in text
    assert '| b | x | 1 | 0 | 1 | 50.0 | 100.0 |\n' in text
