"""Problems of a source that reads them one by one, as it is asked."""

import re

import pytest

from passk_jax.data.batches import read_problems
from passk_jax.data.problems import check_problem
from passk_jax.errors import InputError
from passk_jax.types import Problem


@pytest.mark.parametrize(
    ('problem', 'message'),
    [
        (None, 'it returned None, not a Problem of an int, a text, a mapping and a'),
        (Problem(1, b'a', {}, 'b'), "prompt=b'a'"),
        (Problem(2**40, 'a', {}, 'b'), 'id=1099511627776, which must lie in [0, 2147'),
        (
            Problem(1, 'a', {'x': {1}}, 'b'),
            'whose data are no JSON: Object of type set',
        ),
    ],
)
def test_what_is_no_problem_is_named(problem, message):
    with pytest.raises(InputError, match=re.escape(message)):
        check_problem(problem, 'it')


def test_every_problem_is_checked_before_its_prompt_is_read():
    source = [Problem(0, 'a', {}, 'b'), Problem(1, 3, {}, 'b')]
    with pytest.raises(InputError, match=r'the source, at index 1, returned Problem'):
        read_problems(
            source,
            lambda problem: [ord(x) for x in problem.prompt],
            max_prompt_tokens=9,
            overlong='error',
        )
