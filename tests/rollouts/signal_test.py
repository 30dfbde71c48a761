import numpy as np
import pytest

from passk_jax.rollouts.signal import (
    Example,
    explain_missing_signal,
    has_answer,
    list_examples,
)

RIGHT, WRONG, NONE = ('5', True), ('6', False), ('', False)


def explain(*rows, stopped=1.0, example='a response', unweighted=False, examples=()):
    return explain_missing_signal(
        np.array([[correct for _, correct in row] for row in rows]),
        [[answer for answer, _ in row] for row in rows],
        stopped=stopped,
        examples=examples or [Example(example, '', 1.0)],
        unweighted=unweighted,
    )


@pytest.mark.parametrize(
    ('rows', 'stopped', 'what', 'cause'),
    [
        ([[NONE, NONE]], 1.0, 'no response of 2 has an answer', 'warm start'),
        ([[NONE, NONE]], 0.2, 'no response of 2 has an answer', 'max_response_tokens'),
        ([[NONE] * 3 + [RIGHT]], 1.0, 'only 1 of 4 responses', 'data.few_shot'),
        ([[WRONG, NONE], [WRONG, WRONG]], 1.0, 'all 4 responses are wrong', 'too hard'),
        ([[WRONG, NONE]], 0.2, 'all 2 responses are wrong', 'max_response_tokens'),
        ([[WRONG, WRONG]], 1.0, 'wrong, and to each problem the same', 'collapsed'),
        ([[RIGHT, RIGHT]], 1.0, 'all 2 responses are right', 'too easy'),
        ([[RIGHT] * 2, [WRONG] * 2], 1.0, 'all right or all wrong', 'collapsed'),
        ([[RIGHT] * 2, [WRONG, ('7', False)]], 1.0, 'all right or', 'more rollouts'),
        # A task that reads no answer.
        ([[('', True)] * 2], 1.0, 'all 2 responses are right', 'too easy'),
        ([[('', True)] * 2, [NONE] * 2], 1.0, 'all right or', 'more rollouts'),
        # One response to each problem is the same as itself.
        ([[WRONG], [WRONG]], 1.0, 'all 2 responses are wrong. ', 'too hard'),
    ],
)
def test_what_cannot_teach_is_named_with_the_likely_cause(rows, stopped, what, cause):
    text = explain(*rows, stopped=stopped)
    assert what in text
    assert cause in text
    assert text.endswith("One response: 'a response'")


@pytest.mark.parametrize(
    'rows', [[[RIGHT, WRONG]], [[RIGHT], [WRONG]], [[('', True), NONE]]]
)
def test_a_batch_with_right_and_wrong_responses_is_not_warned_of(rows):
    assert explain(*rows) == ''


def test_a_long_response_is_cut():
    assert explain([NONE], example='x' * 10_000).endswith("xxx...'")
    assert len(explain([NONE], example='x' * 10_000)) < 600


@pytest.mark.parametrize(
    ('stopped', 'cause'), [(1.0, 'advantage.k'), (0.2, 'max_response_tokens')]
)
def test_different_rewards_without_an_advantage_are_warned_of(stopped, cause):
    text = explain([RIGHT, RIGHT, WRONG], stopped=stopped, unweighted=True)
    assert text.startswith('rewards differ, but every advantage that is trained is 0')
    assert cause in text


def test_an_answer_is_a_text():
    parsed = [['', '1'], ['', '']]
    assert has_answer(parsed).tolist() == [[False, True], [False, False]]


ENDED, CUT, ANSWERED = list_examples(
    [['e', 'c', 'a']], [['', '', '6']], np.array([[True, False, True]])
)


@pytest.mark.parametrize(
    ('row', 'stopped', 'cause', 'response'),
    [
        ([NONE, NONE], 0.5, 'half of the responses or more are cut off', 'c'),
        ([NONE, NONE], 0.6, 'does not write answers in the form', 'e'),
        ([NONE] * 3 + [WRONG], 0.6, 'does not write answers in the form', 'e'),
        ([WRONG, ('7', False)], 0.6, 'too hard', 'a'),
    ],
)
def test_the_response_shown_is_of_the_kind_that_is_named(row, stopped, cause, response):
    examples = (CUT, ANSWERED, ENDED)
    text = explain(row, stopped=stopped, examples=examples)
    assert cause in text
    assert text.endswith(f"One response: '{response}'")
