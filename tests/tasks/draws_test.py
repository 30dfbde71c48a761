import collections

from passk_jax.tasks.draws import Draws


def test_a_stream_depends_on_its_whole_address_and_never_changes():
    assert [Draws(0, 'test', 'sudoku', 1, 2).below(1000) for _ in 'ab'] == [652] * 2
    streams = {
        tuple(Draws(*address).permutation(20))
        for address in [(0,), (1,), (0, 1), (0, 'a'), (0, 'b'), ('a', 0), (0, 'a', 1)]
    }
    assert len(streams) == 7


def test_choices_are_even():
    draws = Draws(0)
    counts = collections.Counter(draws.between(3, 7) for _ in range(5000))
    assert set(counts) == {3, 4, 5, 6, 7}
    assert max(counts.values()) < 1.15 * min(counts.values())
    orders = collections.Counter(tuple(draws.permutation(3)) for _ in range(6000))
    assert len(orders) == 6
    assert max(orders.values()) < 1.2 * min(orders.values())
    assert abs(sum(draws.chance(1, 4) for _ in range(4000)) - 1000) < 100


def test_samples_are_different_items():
    draws = Draws(0)
    for _ in range(100):
        sample = draws.sample('abcdef', 4)
        assert len(set(sample)) == 4
    assert draws.choice(['only']) == 'only'
