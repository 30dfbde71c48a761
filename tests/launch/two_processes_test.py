"""Two processes of four fake devices, from the launcher, train as one process does."""

import os
import subprocess
import sys

import pytest

from tests import tiny
from tests.launch.fakes import SCRIPT
from tests.multihost_test import CHANGES, lines, options_of

CHANGES = CHANGES | {'log__diagnostics_every': 0, 'advantage__name': 'pass_at_k'}


@pytest.mark.slow
def test_two_processes_from_the_launcher_train_as_one_does(tmp_path):
    workdir = tmp_path / 'two'
    ended = subprocess.run(
        [
            *(SCRIPT, 'run', '--backend=local', '--processes=2', '--name=test'),
            *(f'--logs={tmp_path}/logs', f'--python={sys.executable}', '--'),
            *(*options_of(CHANGES), f'--workdir={workdir}'),
        ],
        env={name: os.environ[name] for name in os.environ if name != 'XLA_FLAGS'},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr
    assert tiny.run(tiny.make_config(**CHANGES), tmp_path / 'one')
    one, two = lines(tmp_path / 'one'), lines(workdir)
    assert [line['step'] for line in one] == [line['step'] for line in two]
    for a, b in zip(one, two, strict=True):
        assert a['response_length'] == b['response_length']
        assert a['reward'] == b['reward']
        assert a['loss'] == pytest.approx(b['loss'], abs=1e-5)
