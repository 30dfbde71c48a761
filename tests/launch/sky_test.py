"""sky.yaml asks of a worker what launch_tpu.sh does there, on the slice it names."""

import os
import subprocess

import pytest
import yaml

from tests.launch.fakes import ROOT, SCRIPT, Launcher, commands_of, words_of
from tests.launch.pods_test import LINES
from tests.launch.slices_test import flag

TASK = yaml.safe_load((ROOT / 'sky.yaml').read_text())
SETUP, RUN = (words_of(TASK[name].strip()) for name in ('setup', 'run'))
KIND = TASK['resources']['accelerators'].removeprefix('tpu-')


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path / 'here')


def requests_of(launcher, command, *options):
    """The commands that launch_tpu.sh has for the slice of sky.yaml."""
    place = ('--backend=queued', '--dry-run', '--zone=us-central1-a', f'--type={KIND}')
    ended = launcher(command, *place, *options)
    assert ended.returncode == 0, ended.stderr
    return commands_of(ended.stdout)


def on_worker(launcher, words, **environment):
    """Runs a command of sky.yaml in the code, as SkyPilot does on a worker."""
    path = f'{launcher.place}/bin:{os.environ["PATH"]}'
    home = {'HOME': str(launcher.place / 'home-0'), 'FAKES': str(launcher.place)}
    return subprocess.run(
        words,
        cwd=launcher.code,
        env=os.environ | home | {'PATH': path} | environment,
        capture_output=True,
        text=True,
    )


def test_it_has_the_fields_of_a_task_and_no_other():
    assert set(TASK) == {'name', 'workdir', 'resources', 'setup', 'run'}
    assert set(TASK['resources']) == {
        *('infra', 'accelerators', 'accelerator_args', 'use_spot', 'job_recovery')
    }
    for name in ('setup', 'run'):
        (line,) = TASK[name].splitlines()
        assert line.startswith('./launch_tpu.sh worker ')


def test_a_worker_runs_what_the_launcher_starts_there(launcher):
    run, *_ = requests_of(launcher, 'run', '--', *RUN[5:])
    started = words_of(flag(run, 'command'))
    assert started[1:3] == ['worker', 'start']
    assert RUN[1:3] == ['worker', 'run']
    assert RUN[3:] == started[3:]


def test_the_slice_has_the_software_that_the_launcher_asks_for(launcher):
    (create, _) = requests_of(launcher, 'create', '--spot')
    runtime = flag(create, 'runtime-version')
    assert TASK['resources']['accelerator_args'] == {'runtime_version': runtime}
    assert flag(create, 'accelerator-type') == KIND
    assert TASK['resources']['use_spot'] == ('--spot' in create)


def test_the_flags_are_those_of_the_page():
    (line,) = [line for line in LINES if ' run --backend=queued ' in line]
    assert RUN[5:] == words_of(line.partition(' -- ')[2])


def test_setup_is_the_line_of_the_launcher(launcher):
    """But for the place of the requirements, which lie in the code here."""
    bash = launcher.tool('bash', '#!/bin/sh\nprintf %s "$2" > "$FAKES/line"\n')
    done = on_worker(launcher, ['/bin/bash', *SETUP])
    assert done.returncode == 0, done.stderr
    line = (launcher.place / 'line').read_text()
    bash.unlink()
    _, installed = requests_of(launcher, 'setup', f'--nfs={SETUP[3]}')
    requirements = str(launcher.code / 'requirements.txt')
    assert line == flag(installed, 'command').replace(
        'passk_requirements.txt', requirements
    )


@pytest.mark.parametrize('share', ['a:/b; touch x', '/b', '$(touch x)'])
def test_a_share_that_is_none_is_refused(launcher, share):
    done = on_worker(launcher, [SCRIPT, 'worker', 'setup', share])
    assert done.returncode == 2
    assert 'must be HOST:/SHARE' in done.stderr
    assert not list(launcher.place.rglob('x'))


@pytest.mark.parametrize('status', [0, 2, 42])
def test_the_status_of_the_run_is_that_of_its_trainer(launcher, status):
    launcher.statuses(str(status))
    done = on_worker(launcher, RUN)
    assert done.returncode == status
    assert 'the trainer begins' in done.stdout
    assert launcher.trained() == [['-m', 'passk_jax.train', *RUN[3:]]]


def test_preemptions_are_recovered_from():
    recovery = TASK['resources']['job_recovery']
    assert {42, 43, 44} <= {*recovery['recover_on_exit_codes']}
