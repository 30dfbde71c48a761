import pytest

from passk_jax.planning.chips import CPU, GIB, GPUS, TPUS, chip_of

CHIPS = [*TPUS.values(), *GPUS.values()]


@pytest.mark.parametrize('chip', CHIPS, ids=lambda chip: chip.name)
def test_a_chip_computes_faster_than_it_reads_and_reads_faster_than_it_receives(chip):
    # Chips of today do 100 to 1000 FLOPs a byte read: a slip of units fails here.
    assert 50 < chip.flops / chip.memory_bandwidth < 1000
    # PCIe is slower than NVLink.
    most = 40 if chip.name == 'rtx4090' else 15
    assert 2 < chip.memory_bandwidth / chip.link_bandwidth < most
    assert 10 * GIB < chip.memory < 200 * GIB


def test_chips_are_found_by_their_names():
    assert all(name == chip.name for name, chip in (TPUS | GPUS).items())


def test_nothing_is_assumed_of_the_hosts_processor():
    assert not CPU.flops
    assert not CPU.memory


@pytest.mark.parametrize(
    ('kind', 'name', 'peak'),
    [
        ('TPU v4', 'v4', 275e12),
        ('TPU v5', 'v5p', 459e12),
        ('TPU v5p', 'v5p', 459e12),
        ('TPU v5 lite', 'v5e', 197e12),
        ('TPU v5e', 'v5e', 197e12),
        ('TPU v6 lite', 'v6e', 918e12),
        ('TPU v6e', 'v6e', 918e12),
        # Half of a chip of 2307e12.
        ('TPU7x', 'tpu7x', 1153.5e12),
        ('NVIDIA L4', 'l4', 121e12),
        ('NVIDIA A100-SXM4-80GB', 'a100', 312e12),
        ('NVIDIA H100 80GB HBM3', 'h100', 989.4e12),
        ('NVIDIA H200', 'h200', 989.4e12),
        ('NVIDIA B200', 'b200', 2250e12),
        ('NVIDIA GeForce RTX 4090', 'rtx4090', 165.2e12),
    ],
)
def test_a_device_has_the_peak_of_its_chip(kind, name, peak):
    assert (chip_of(kind).name, chip_of(kind).flops) == (name, peak)


@pytest.mark.parametrize(
    'kind', ['cpu', '', 'TPU v4 lite', 'TPU7', 'NVIDIA H100 PCIe', 'NVIDIA H200 NVL']
)
def test_nothing_is_assumed_of_other_devices(kind):
    assert chip_of(kind) is None
