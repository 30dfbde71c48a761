"""A slice by ssh: what gcloud is asked, what workers do, and what failures become."""

import hashlib
import json
import subprocess
import tarfile

import pytest

from tests.launch.fakes import (
    ROOT,
    TRAIN,
    Launcher,
    commands_of,
    distinct,
    words_of,
)
from tests.launch.local_test import NASTY, begin
from tests.slow import slow_values

ZONE = '--zone=us-central1-a'
TPUS = ['gcloud', 'compute', 'tpus']
BACKENDS = ('tpu-vm', 'queued')
COMMANDS = ['create', 'setup', 'sync', 'run', 'logs', 'status', 'stop', 'delete']


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path / 'here')


@pytest.fixture(scope='module')
def synced(tmp_path_factory):
    """One with two workers that have the code."""
    launcher = Launcher(tmp_path_factory.mktemp('synced') / 'here')
    launcher.workers(2)
    ended = ask(launcher, 'sync')
    assert ended.returncode == 0, ended.stderr
    launcher.calls()
    return launcher


def arguments_of(launcher, command, *options, backend='tpu-vm', train=TRAIN):
    arguments = [*launcher.options(command, backend), *options]
    return [*arguments, '--', *train] if command in ('run', 'loop') else arguments


def ask(launcher, command, *options, **more):
    return launcher(*arguments_of(launcher, command, *options, **more))


def flag(call, name):
    (value,) = [x.partition('=')[2] for x in call if x.startswith(f'--{name}=')]
    return value


def test_create_asks_for_the_slice_and_waits_for_it(launcher):
    ended = ask(launcher, 'create', '--spot', '--project=mine')
    assert ended.returncode == 0, ended.stderr
    created, described = launcher.calls()
    at = [ZONE, '--project=mine']
    assert created == [
        *TPUS,
        *('tpu-vm', 'create', 'passk', '--version=v2-alpha-tpuv5-lite'),
        *('--accelerator-type=v5litepod-8', '--spot', *at),
    ]
    assert described == [
        *(*TPUS, 'tpu-vm', 'describe', 'passk', '--format=value(state)', *at)
    ]


def test_a_queued_slice_has_a_node_of_its_name_and_is_waited_for(launcher):
    for state in ('WAITING_FOR_RESOURCES', 'PROVISIONING'):
        launcher.cue('describe', 0, out=f'{state}\n')
    ended = ask(launcher, 'create', '--name=mine', backend='queued')
    assert ended.returncode == 0, ended.stderr
    created, *described = launcher.calls()
    assert created == [
        *(*TPUS, 'queued-resources', 'create', 'mine', '--node-id=mine'),
        *('--runtime-version=v2-alpha-tpuv5-lite', '--accelerator-type=v5litepod-8'),
        ZONE,
    ]
    assert len(described) == 3
    assert described[0][3:6] == ['queued-resources', 'describe', 'mine']
    assert 'mine is WAITING_FOR_RESOURCES' in ended.stderr


@pytest.mark.parametrize(
    ('state', 'message'),
    [
        ('', None),
        ('CREATING', 'passk is there, in state CREATING, and may cost: delete it'),
    ],
)
def test_a_refused_or_half_made_slice_is_told_apart(launcher, state, message):
    launcher.cue(' create ', 1, error="Quota 'TPUV5sLitepodPerProject' exceeded")
    launcher.cue('describe', 0 if state else 1, out=state)
    ended = ask(launcher, 'create')
    assert ended.returncode == 1
    assert "Quota 'TPUV5sLitepodPerProject' exceeded" in ended.stderr
    assert (message in ended.stderr) if message else 'is there' not in ended.stderr
    assert ended.stderr.endswith('error: create failed\n')


def test_a_request_that_fails_in_the_queue_does_not_wait_for_ever(launcher):
    launcher.cue('describe', 0, out='FAILED\n', times=9)
    ended = ask(launcher, 'create', backend='queued')
    assert ended.returncode == 1
    assert 'passk is FAILED, not ready: delete it' in ended.stderr


@pytest.mark.parametrize('backend', BACKENDS)
def test_delete_leaves_nothing_that_costs(launcher, backend):
    assert ask(launcher, 'delete', backend=backend).returncode == 0
    what = ['queued-resources', 'delete', 'passk', '--force']
    if backend == 'tpu-vm':
        what = ['tpu-vm', 'delete', 'passk']
    assert launcher.calls() == [[*TPUS, *what, '--quiet', ZONE]]


def test_setup_installs_the_requirements_on_every_worker(launcher):
    assert ask(launcher, 'setup').returncode == 0
    copied, installed = launcher.calls()
    assert copied[3:5] == ['tpu-vm', 'scp']
    for call in (copied, installed):
        assert '--worker=all' in call
    (home,) = launcher.place.glob('home-*')
    sent = (home / 'passk_requirements.txt').read_text()
    assert sent == (ROOT / 'requirements.txt').read_text()
    assert "-r passk_requirements.txt 'jax[tpu]'" in flag(installed, 'command')


def test_setup_mounts_the_share(launcher):
    assert ask(launcher, 'setup', '--nfs=10.0.0.2:/runs').returncode == 0
    command = flag(launcher.calls()[1], 'command')
    assert 'sudo mount -t nfs 10.0.0.2:/runs /mnt/runs;' in command
    assert subprocess.run(['bash', '-n', '-c', command]).returncode == 0


def test_the_code_comes_whole_and_says_its_revision(launcher):
    (launcher.code / 'passk_jax' / 'train.py').write_text('changed')
    (launcher.code / 'requirements.txt').unlink()
    (launcher.code / 'ä name').write_text('tracked')
    launcher.git('add', 'ä name')
    (launcher.code / 'secrets').write_text('not tracked')
    launcher.workers(2)
    ended = ask(launcher, 'sync')
    assert ended.returncode == 0, ended.stderr
    assert '1 files that git does not track stay here' in ended.stderr
    for index in range(2):
        code = launcher.place / f'home-{index}' / 'passk_jax' / 'code'
        names = {str(x.relative_to(code)) for x in code.rglob('*') if x.is_file()}
        assert names == {
            *('git.json', 'git.diff', '.gitignore', 'launch_tpu.sh', 'ä name'),
            'passk_jax/train.py',
        }
        assert (code / 'passk_jax' / 'train.py').read_text() == 'changed'
        diff = (code / 'git.diff').read_bytes()
        assert diff == launcher.git('diff', '--binary', 'HEAD').encode()
        assert json.loads((code / 'git.json').read_text()) == {
            'revision': launcher.git('rev-parse', 'HEAD').strip(),
            'dirty': True,
            'diff_sha256': hashlib.sha256(diff).hexdigest(),
        }


def test_the_same_code_is_the_same_archive(launcher):
    archive = launcher.place / 'logs' / 'code' / 'code.tgz'
    contents = []
    for _ in range(2):
        assert ask(launcher, 'sync', '--dry-run').returncode == 0
        contents.append(archive.read_bytes())
        (launcher.code / 'requirements.txt').touch()
    assert contents[0] == contents[1]
    with tarfile.open(archive) as tar:
        assert {(member.mtime, member.uid) for member in tar} == {(0, 0)}


def test_a_damaged_archive_is_not_unpacked(synced):
    line = ask(synced, 'sync', '--dry-run').stdout.splitlines()[1]
    command = flag(words_of(line), 'command')
    home = synced.place / 'home-0'
    archive = home / 'passk_code.tgz'
    before = (home / 'passk_jax' / 'code').resolve()
    data = archive.read_bytes()
    for damaged in (data[:-1], b'x' + data[1:], b''):
        archive.write_bytes(damaged)
        assert subprocess.run(['bash', '-c', command], cwd=home).returncode == 1
    assert (home / 'passk_jax' / 'code').resolve() == before
    archive.write_bytes(data)


TWO = ('--processes=2', '--chips=8')


def test_a_run_gives_every_worker_its_arguments_and_follows_them(synced):
    env = synced.place / 'env'
    env.write_text('# of the workers\nTOKEN=$(touch x) secret\n')
    train = (*TRAIN, *NASTY)
    ended = ask(synced, 'run', *TWO, f'--env-file={env}', train=train)
    assert ended.returncode == 0, ended.stderr
    expected = ['-m', 'passk_jax.train', '--expect=2,8', '--hosts=auto', *train]
    assert synced.trained() == [expected] * 2
    assert '[0] the trainer begins; TOKEN is $(touch x) secret' in ended.stdout
    assert 'the trainer begins' in (synced.place / 'logs/worker-1.log').read_text()
    assert not [*synced.place.rglob('x')]
    assert not any('secret' in word for call in synced.calls() for word in call)
    again = ask(synced, 'logs')
    assert again.returncode == 0
    assert 'the trainer begins' in again.stdout
    assert 'the last run ended with 0' in ask(synced, 'status').stdout


@pytest.mark.parametrize('status', [42, 1, 2])
def test_the_status_of_a_worker_is_that_of_the_run(synced, status):
    synced.statuses(str(status))
    assert ask(synced, 'run', *TWO).returncode == status


def test_a_worker_that_is_killed_ends_the_others(synced):
    synced.statuses('kill', 'deaf')
    ended = ask(synced, 'run', *TWO)
    assert ended.returncode == 137
    assert 'was ended by SIGKILL' in ended.stderr
    assert 'running' not in ask(synced, 'status').stdout.replace('not running', '')


def test_stop_saves_on_all_workers_and_a_second_run_is_refused(synced):
    synced.statuses('wait')
    synced.trained()
    process = begin(synced, *arguments_of(synced, 'run', *TWO), count=2)
    elsewhere = [x for x in arguments_of(synced, 'run', *TWO) if '--logs=' not in x]
    elsewhere.insert(1, f'--logs={synced.place}/other')
    other = synced(*elsewhere)
    assert other.returncode == 3
    assert 'a run is going on here: stop it first' in other.stderr
    assert ask(synced, 'stop').returncode == 0
    process.communicate(timeout=30)
    assert process.returncode == 42


def test_a_broken_connection_is_no_broken_run(synced):
    synced.statuses('0')
    synced.cue('worker\\ follow', 255, error='ssh: connection refused', times=2)
    synced.cue('worker follow', 255, error='ssh: connection refused', times=2)
    assert ask(synced, 'run', *TWO).returncode == 0
    synced.cue('worker follow', 255, error='ssh: connection refused', times=99)
    ended = ask(synced, 'run', *TWO)
    assert ended.returncode == 255
    assert 'is out of reach' in ended.stderr
    assert 'ssh: connection refused' in ended.stderr
    synced.cues.clear()
    (synced.place / 'cues').write_text('[]')


def test_connections_that_held_may_break_any_number_of_times(synced):
    synced.statuses('0')
    synced.calls()
    synced.cue('worker follow', 255, error='ssh: connection closed', times=9)
    ended = synced(*arguments_of(synced, 'run', *TWO), LAUNCH_HELD_SECONDS='0')
    assert ended.returncode == 0, ended.stderr
    follows = [call for call in synced.calls() if 'worker follow' in ' '.join(call)]
    assert len(follows) == 9 + 2
    synced.cues.clear()


def test_a_worker_that_cannot_be_reached_starts_nothing(synced):
    synced.trained()
    synced.cue('worker start', 255, error='ssh: connection refused')
    ended = ask(synced, 'run', *TWO)
    assert ended.returncode == 255
    assert not synced.trained()


def test_loop_makes_a_preempted_slice_anew(launcher):
    launcher.statuses('1', '42', '0')
    assert ask(launcher, 'sync').returncode == 0
    launcher.calls()
    # After the first run: gone. After the second: there.
    launcher.cue('describe', 0, out='PREEMPTED\n', times=2)
    ended = ask(launcher, 'loop', '--backoff=0', '--max-failures=0')
    assert ended.returncode == 0, ended.stderr
    assert 'passk is PREEMPTED: making it anew' in ended.stderr
    assert '2 preemptions and 0 failures' in ended.stderr
    verbs = [call[4] for call in launcher.calls() if call[4] in ('create', 'delete')]
    assert verbs == ['delete', 'create']
    assert len(launcher.trained()) == 3


@pytest.mark.parametrize('backend', slow_values(BACKENDS, quick=['tpu-vm']))
@pytest.mark.parametrize('command', COMMANDS)
def test_a_dry_run_prints_what_gcloud_is_asked(synced, command, backend):
    synced.statuses('0')
    options = TWO if command == 'run' else ()
    more = {'backend': backend, 'train': (*TRAIN, *NASTY)}
    synced.calls()
    dry = ask(synced, command, '--dry-run', *options, **more)
    assert dry.returncode == 0
    assert not synced.calls()
    assert ask(synced, command, *options, **more).returncode == 0
    printed = commands_of(dry.stdout)
    # Those that follow begin together.
    assert sorted(distinct(synced.calls())) == sorted(printed)
    assert printed
