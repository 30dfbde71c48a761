"""On GKE: what xpk and kubectl are asked, and what the container does with it."""

import pytest

from tests.launch.fakes import TRAIN, Launcher, commands_of, distinct
from tests.launch.local_test import NASTY
from tests.launch.slices_test import COMMANDS, arguments_of, ask, flag

ZONE = '--zone=us-central1-a'


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path / 'here')


def on_gke(launcher, command, *options, **more):
    return ask(launcher, command, *options, backend='xpk', **more)


def test_a_cluster_is_made_reached_and_given_back(launcher):
    for command in ('create', 'setup', 'delete'):
        options = ('--cluster=pool', '--project=mine')
        assert on_gke(launcher, command, *options).returncode == 0
    created, reached, deleted = launcher.calls()
    at = ['--cluster=pool', ZONE, '--project=mine']
    assert created == [
        *('xpk', 'cluster', 'create', '--tpu-type=v5litepod-8', '--num-slices=1'),
        *('--on-demand', *at),
    ]
    assert reached == [
        *('gcloud', 'container', 'clusters', 'get-credentials', 'pool'),
        *('--location=us-central1', '--project=mine'),
    ]
    assert deleted == ['xpk', 'cluster', 'delete', '--force', *at]


def test_a_run_is_a_workload_whose_container_checks_the_code(launcher):
    train = (*TRAIN, *NASTY, '$$(HOME)\n$(PATH)')
    env = launcher.place / 'env'
    env.write_text('TOKEN=secret\n')
    ended = on_gke(launcher, 'run', f'--env-file={env}', train=train)
    assert ended.returncode == 0, ended.stderr
    # Eight chips are two nodes there.
    expected = ['-m', 'passk_jax.train', '--hosts=auto', '--expect=2,8', *train]
    assert expected in launcher.trained()
    call, *other_calls = launcher.calls()
    assert call[:3] == ['xpk', 'workload', 'create']
    assert flag(call, 'workload') == flag(call, 'cluster') == 'passk'
    assert flag(call, 'base-docker-image') == 'python:3.12'
    assert flag(call, 'max-restarts') == '0'
    assert flag(call, 'storage') == 'runs'
    assert flag(call, 'env-file') == str(env)
    assert not any('secret' in word for word in call)
    # It becomes one line of a manifest.
    assert '\n' not in flag(call, 'command')
    (logs,) = [x for x in other_calls if x[:2] == ['kubectl', 'logs']]
    assert flag(logs, 'selector').endswith('job-completion-index=0')
    assert not [*launcher.place.rglob('x')]


def test_a_damaged_archive_ends_the_container(launcher):
    wrong = '[ $# = 0 ] && echo wrong || exec /usr/bin/sha256sum "$@"'
    launcher.tool('sha256sum', f'#!/bin/sh\n{wrong}\n')
    assert on_gke(launcher, 'run').returncode == 1
    assert not launcher.trained()


def test_a_chip_of_two_cores_is_one_process(launcher):
    arguments = arguments_of(launcher, 'run', '--dry-run', backend='xpk')
    arguments[arguments.index('--type=v5litepod-8')] = '--type=tpu7x-2x2x4'
    arguments.insert(1, '--slices=2')
    ended = launcher(*arguments)
    assert ended.returncode == 0, ended.stderr
    call = commands_of(ended.stdout)[0]
    assert '--no-use-parallel-containers' in call
    assert '--expect=8,32' in flag(call, 'command').replace('\\', '')


@pytest.mark.parametrize(
    ('codes', 'status'),
    [
        *(('42 42', 42), ('0 42', 42), ('137 143', 42), ('43 137 43', 42)),
        *(('137 1', 1), ('143 2 137', 2)),
    ],
)
def test_the_status_is_read_from_the_pods(launcher, codes, status):
    launcher.cue('get jobset', 0, out='Failed')
    launcher.cue('get pods', 0, out=codes)
    assert on_gke(launcher, 'run').returncode == status


def test_a_job_that_restarts_is_followed_again(launcher):
    launcher.cue('get jobset', 0, out='', times=2)
    assert on_gke(launcher, 'run').returncode == 0
    followed = [call for call in launcher.calls() if call[:2] == ['kubectl', 'logs']]
    assert len(followed) == 3


def test_a_refused_workload_is_not_followed(launcher):
    launcher.cue('workload create', 1, error='quota')
    ended = on_gke(launcher, 'run')
    assert ended.returncode == 1
    assert 'quota' in ended.stderr
    assert len(launcher.calls()) == 1


def test_loop_leaves_preemptions_to_the_jobset_and_repeats_failures(launcher):
    launcher.cue('get jobset', 0, out='Failed')
    launcher.cue('get pods', 0, out='1 137')
    options = ('--backoff=0', '--max-preemptions=7')
    ended = on_gke(launcher, 'loop', *options)
    assert ended.returncode == 0, ended.stderr
    calls = [x for x in launcher.calls() if x[:2] == ['xpk', 'workload']]
    assert [call[2] for call in calls] == ['create', 'delete', 'create']
    assert flag(calls[0], 'max-restarts') == '7'


@pytest.mark.parametrize('command', COMMANDS)
def test_a_dry_run_prints_what_is_asked(launcher, command):
    dry = on_gke(launcher, command, '--dry-run', train=(*TRAIN, *NASTY))
    assert dry.returncode == 0
    assert not launcher.calls()
    assert on_gke(launcher, command, train=(*TRAIN, *NASTY)).returncode == 0
    commands = [x for x in launcher.calls() if 'terminalState' not in ' '.join(x)]
    assert distinct(commands) == commands_of(dry.stdout)
