import pytest

from passk_jax.planning.chips import CPU, GIB, GPUS, TPUS

CHIPS = [*TPUS.values(), *GPUS.values()]


@pytest.mark.parametrize('chip', CHIPS, ids=lambda chip: chip.name)
def test_a_chip_computes_faster_than_it_reads_and_reads_faster_than_it_receives(chip):
    # Chips of today do 100 to 1000 FLOPs a byte read: a slip of units fails here.
    assert 50 < chip.flops / chip.memory_bandwidth < 1000
    assert 2 < chip.memory_bandwidth / chip.link_bandwidth < 15
    assert 10 * GIB < chip.memory < 200 * GIB


def test_chips_are_found_by_their_names():
    assert all(name == chip.name for name, chip in (TPUS | GPUS).items())


def test_nothing_is_assumed_of_the_hosts_processor():
    assert not CPU.flops
    assert not CPU.memory
