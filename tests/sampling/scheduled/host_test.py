"""Scheduled sampling hands its responses over as they end."""

import dataclasses

import jax
import numpy as np
import pytest

from passk_jax.sampling.scheduled import cost, host
from tests.sampling import sampler_test
from tests.sampling.sampler_test import T, free_decisions, run, work_of  # noqa: F401
from tests.slow import slow_values


class Heard:
    """What was handed over, and how far decoding was at each time."""

    def __init__(self):
        self.parts = []

    def __call__(self, ended):
        self.parts.append(ended)

    def responses(self):
        """``{(p, n): (tokens, length)}``; each was handed over once."""
        by_place = {}
        for part in self.parts:
            tokens, lengths = jax.device_get((part.tokens, part.lengths))
            places = zip(part.problems, part.rollouts, strict=True)
            for row, place in enumerate(places):
                assert place not in by_place
                by_place[place] = tokens[row], lengths[row]
        return by_place


def check_all(heard, rollouts):
    responses = heard.responses()
    P, N = rollouts.lengths.shape
    assert responses.keys() == {(p, n) for p in range(P) for n in range(N)}
    for (p, n), (tokens, length) in responses.items():
        np.testing.assert_array_equal(tokens, rollouts.tokens[p, n])
        assert length == rollouts.lengths[p, n]


@pytest.mark.parametrize('size', [*slow_values([None]), sampler_test.Size(2, 2)])
def test_every_response_is_handed_over_once_and_whole(policy, params, prompts, size):
    heard = Heard()
    limit = work_of(policy, prompts).cache_bytes(size) if size else 0
    rollouts = run(policy, params, prompts, max_cache_bytes=limit, on_ended=heard)
    check_all(heard, rollouts)
    assert len(heard.parts) > 4
    # Short ones go first: they do not wait for the longest.
    first = heard.parts[0]
    lengths = np.asarray(rollouts.lengths)
    assert lengths[first.problems, first.rollouts].max() < T // 2


def test_the_plain_loop_hands_all_over_at_its_end(policy, params, prompts):
    heard = Heard()
    with sampler_test.at(sampler_test.DEFAULT):
        rollouts = run(policy, params, prompts, max_response_tokens=10, on_ended=heard)
    assert len(heard.parts) == 1
    check_all(heard, rollouts)


def test_decoding_goes_on_before_anybody_looks(policy, params, prompts, monkeypatch):
    """What is handed over was not waited for, and is not in the way of a donation."""
    events = []
    advance = host.device.advance

    def watched(*args):
        events.append('advance')
        return advance(*args)

    monkeypatch.setattr(host.device, 'advance', watched)
    parts = []

    def on_ended(ended):
        events.append('ended')
        # Simulates a late thread, which looks when all is over.
        parts.append(ended)

    rollouts = run(policy, params, prompts, on_ended=on_ended)
    assert events.index('ended') < len(events) - events[::-1].index('advance') - 1
    heard = Heard()
    heard.parts = parts
    check_all(heard, rollouts)


def test_responses_are_handed_over_as_often_as_decoding_pays(policy, params, prompts):
    """Not at every sixteenth of the limit, which is four steps here."""
    heard = Heard()
    weights = sum(x.size for x in params.values())
    # A step of all rows takes a second, and a decision pays off after ten.
    pace = dataclasses.replace(
        sampler_test.CPU, flops=2.0 * weights * 64, decision=10 / cost.PART
    )
    with sampler_test.at(pace), sampler_test.decodings() as runs:
        rollouts = run(policy, params, prompts, on_ended=heard)
    check_all(heard, rollouts)
    account = runs[0].account
    assert 2 <= len(heard.parts) <= T // 10
    # All but the last hand-over was paid for, and the longer ring, which must be.
    assert account.spent <= account.decoded / cost.PART + 2 * account.decision()


def test_prompts_run_as_slots_become_free(policy, params, prompts, monkeypatch):
    """As many first as there are slots, then windows of a quarter of them."""
    counts, prefill = [], host.device.prefill

    def watched(*args, count=0):
        counts.append(count)
        return prefill(*args, count=count)

    monkeypatch.setattr(host.device, 'prefill', watched)
    P = prompts.tokens.shape[0]
    work = work_of(policy, prompts)
    size = sampler_test.Size(3, 2)
    with sampler_test.decodings() as runs:
        rollouts = run(policy, params, prompts, max_cache_bytes=work.cache_bytes(size))
    first, *windows = counts
    assert first < P
    assert set(windows) == {work.window(sampler_test.Size(first, 1))}
    # None runs twice on a single shard, and all are dropped at the end.
    assert first + sum(windows) >= P
    assert len(windows) <= P - first
    assert runs[0].window is None
    sampler_test.assert_same(rollouts, sampler_test.plain(policy, params, prompts))
