"""``experiments/last_three.py`` on results whose answer is known."""

import numpy as np
import pytest

from experiments import last_three
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.rows import compress_rows

SWEEP = config_file.call(
    'experiments/sweeps/passk_vs_pass1.py', 'get_sweep', returns=Sweep
)


def write(directory, steps):
    """Pass@k Training is higher by a hundredth of the step, and of the seed."""
    rows = []
    for split in ('validation', 'test'):
        for arm in ('pass_at_1', 'pass_at_k'):
            for seed in (0, 1):
                for step in steps:
                    gain = (step + seed) / 100 if arm == 'pass_at_k' else 0
                    values = {'pass_at_1': 0.1 + gain, 'pass_at_32': 0.2 - gain}
                    where = {'arm': arm, 'seed': seed, 'step': step, 'split': split}
                    run = {'run': f'{arm}_seed{seed}', 'stage': 0}
                    rows.append(run | where | values)
    (directory / f'{SWEEP.name}.jsonl.gz').write_bytes(compress_rows(rows))


def test_differences_are_of_all_evaluations_after_the_first(tmp_path):
    write(tmp_path, (0, 1, 2, 3, 4))
    differences = last_three.read_differences(
        SWEEP, tmp_path, 'pass_at_k', split='test'
    )
    want = [[0.01, 0.02], [0.02, 0.03], [0.03, 0.04], [0.04, 0.05]]
    np.testing.assert_allclose(differences['pass_at_1'], want)
    np.testing.assert_allclose(differences['pass_at_32'], -np.array(want))


def test_the_first_policy_is_none_of_three_evaluations(tmp_path):
    write(tmp_path, (0, 1, 2))
    with pytest.raises(InputError, match=r'all seeds at \[1, 2\] only'):
        last_three.read_differences(SWEEP, tmp_path, 'pass_at_k', split='test')
