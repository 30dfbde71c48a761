"""launch_tpu.sh refuses what is wrong before it starts anything, in one line."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.launch.fakes import ROOT, SCRIPT, SLICE, TRAIN, Launcher, one_line

LOCAL = ('--backend=local',)
VM = ('--backend=tpu-vm', *SLICE)
XPK = ('--backend=xpk', *SLICE)
ZONE = '--zone=us-central1-a'
TYPED = ('run', '--backend=tpu-vm', ZONE)

# Arguments, and words of the error message.
HOSTILE = [
    ((), 'a command is missing'),
    (('',), 'a command is missing'),
    (('launch',), 'launch must be one of create setup'),
    (('Run', *LOCAL), 'must be one of'),
    (('run; touch x', *LOCAL), 'must be one of'),
    (('$(touch x)',), 'must be one of'),
    (('run',), '--backend is required'),
    (('run', '--backend='), '--backend= is empty'),
    (('run', '--backend', 'local'), '--backend needs a value: --backend=...'),
    (('run', '--backend=slurm'), '--backend=slurm must be one of local tpu-vm'),
    (('run', '--backend=local tpu-vm'), 'must be one of'),
    (('run', *LOCAL, *LOCAL), '--backend is given twice'),
    (('run', *LOCAL, '--procesess=2'), 'unknown option --procesess=2'),
    (('run', *LOCAL, '--config=x'), 'flags of train come after --'),
    (('run', *LOCAL, '-n', '2'), '-n is no option'),
    (('run', *LOCAL, 'two words'), r'two\ words is no option'),
    (('run', *LOCAL, '--'), 'flags of train are missing'),
    (('run', *LOCAL), 'flags of train are missing'),
    (('run', *LOCAL, '--$(touch x)=1'), 'unknown option'),
    (('run', *LOCAL, '--a[$(touch x)]=1'), 'unknown option'),
    (('run', *LOCAL, '--=1'), 'unknown option'),
    (('run', *LOCAL, '--dry-run=no'), '--dry-run takes no value'),
    (('run', *LOCAL, '--processes=0'), '--processes=0 must be a whole number'),
    (('run', *LOCAL, '--processes=-1'), 'must be a whole number from 1'),
    (('run', *LOCAL, '--processes=two'), 'must be a whole number from 1'),
    (('run', *LOCAL, '--processes=a[$(touch x)]'), 'must be a whole number'),
    (('run', *LOCAL, '--processes=1e9'), 'must be a whole number'),
    (('run', *LOCAL, '--processes=99999999'), 'must be a whole number'),
    (('run', *LOCAL, '--processes=08'), 'must be a whole number'),
    (('run', *LOCAL, '--devices-per-process=none'), "a whole number, or 'all'"),
    (
        ('run', *LOCAL, '--processes=2', '--devices-per-process=all', '--', *TRAIN),
        'cannot share real devices',
    ),
    (('run', *LOCAL, '--port=80'), 'must be a port'),
    (('run', *LOCAL, '--port=99999'), 'must be from 1024 to 65535'),
    (('run', *LOCAL, '--python=/no/python'), 'is no program'),
    (('run', *LOCAL, '--logs=/dev/null'), 'is no directory'),
    (('run', *LOCAL, '--name=../../etc'), '--name=../../etc must be at most 40'),
    (('run', *LOCAL, '--name=Passk'), 'must be at most 40'),
    (('run', *LOCAL, f'--name={"a" * 41}'), 'must be at most 40'),
    (('run', *LOCAL, '--name=a\nb'), 'must be at most 40'),
    (('run', *LOCAL, '--zone=us-central1-a'), 'not of local'),
    (('run', *LOCAL, '--spot'), '--spot is of tpu-vm, queued, xpk, not of local'),
    (('run', *LOCAL, '--max-failures=3'), '--max-failures is of loop only'),
    (('loop', *LOCAL, '--max-failures=few'), 'must be a whole number from 0'),
    (('loop', *LOCAL, '--backoff=-5', '--', *TRAIN), 'must be a whole number from 0'),
    (('create', *LOCAL), 'the local backend has no create'),
    (('delete', *LOCAL), 'the local backend has no delete'),
    (('status', *LOCAL, '--', *TRAIN), 'status takes nothing after --'),
    (('run', *LOCAL, '--worker=0'), '--worker is of logs only'),
    (('run', *LOCAL, '--', '--workdir=a'), 'train needs --config=FILE'),
    (('run', *LOCAL, '--', *TRAIN, '--hosts=auto'), '--hosts is set by the launcher'),
    (('run', *LOCAL, '--', *TRAIN, '--expect=1,1'), '--expect is set by the launcher'),
    (('run', *LOCAL, '--', *TRAIN, '--hf_token=abc'), '--hf_token holds a secret'),
    (('run', *LOCAL, '--', *TRAIN, '--a.API_KEY=b'), '--a.API_KEY holds a secret'),
    (('run', *LOCAL, '--', *TRAIN, '--a=hf_' + 'x' * 24), '--a holds a secret'),
    (('create', '--backend=tpu-vm'), '--zone is required by the backend tpu-vm'),
    (('create', '--backend=queued', ZONE), '--type is required by the backend queued'),
    (('create', '--backend=tpu-vm', '--zone=here'), 'must be a zone'),
    (('create', *VM, '--project=My Project'), "must be a project's id"),
    (('create', *VM, '--cluster=c'), '--cluster is of xpk, not of tpu-vm'),
    (('create', *XPK, '--runtime=v2'), '--runtime is of tpu-vm, queued, not of xpk'),
    (('create', *VM, '--runtime=$(touch x)'), 'must be a version'),
    ((*TYPED, '--type=v5e'), 'must be a slice'),
    ((*TYPED, '--type=v9-8'), 'must be a slice'),
    ((*TYPED, '--type=v4-7'), 'names an odd number of cores'),
    ((*TYPED, '--type=v4-2x2x2'), 'names a topology, which only GKE takes'),
    ((*TYPED, '--type=tpu7x-16'), 'is only on GKE'),
    (('run', *VM, '--processes=3', '--chips=8', '--', *TRAIN), '8 chips do not divide'),
    (('run', *VM, '--', '--config=c'), 'must be an absolute path that all workers see'),
    (('run', *VM, '--', '--config=c', '--workdir=runs/a'), 'must be an absolute path'),
    (('run', *VM, '--', '--config=c', '--workdir=gs://b/a'), 'must be an absolute'),
    (('run', *VM, '--env-file=/no/file', '--', *TRAIN), 'is no file to read'),
    (('run', *VM, '--env-file=env', '--', *TRAIN), 'a line that is not NAME=value'),
    (('logs', *VM, '--worker=1'), 'is none of 1 workers'),
    (('setup', *VM, '--nfs=a:/b; touch x'), 'must be HOST:/SHARE'),
    (('run', *XPK, '--', *TRAIN), '--storage=NAME is required'),
    (('create', *XPK, '--image=a b'), 'must be the name of an image'),
    (('create', *XPK, '--slices=0'), 'must be a whole number from 1'),
]


@pytest.fixture(scope='module')
def launcher(tmp_path_factory):
    launcher = Launcher(tmp_path_factory.mktemp('launch') / 'here')
    (launcher.place / 'env').write_text('A=1\nexport B=2\n')
    return launcher


@pytest.mark.parametrize(('arguments', 'words'), HOSTILE)
def test_what_is_wrong_is_one_line_and_starts_nothing(launcher, arguments, words):
    ended = launcher(*arguments)
    assert ended.returncode == 2
    assert words in one_line(ended.stderr)
    assert not ended.stdout
    assert not launcher.calls()
    assert not launcher.trained()
    assert not (launcher.place / 'x').exists()


def test_without_gcloud_only_a_dry_run_is_possible(launcher, tmp_path):
    for name in ('bash', 'git', 'tar', 'dirname', 'mkdir', 'sha256sum', 'gzip', 'env'):
        (tmp_path / name).symlink_to(shutil.which(name))
    ended = launcher('create', *VM, PATH=str(tmp_path))
    assert ended.returncode == 2
    assert one_line(ended.stderr) == 'gcloud is not installed; --dry-run needs none'
    assert launcher('create', *VM, '--dry-run', PATH=str(tmp_path)).returncode == 0


@pytest.mark.parametrize('words', [['--help'], ['run', '--help'], ['loop', '-h']])
def test_help_names_every_command_backend_and_option(launcher, words):
    ended = launcher(*words)
    assert ended.returncode == 0
    text = SCRIPT.read_text()
    options = text.partition('OPTIONS=(')[2].partition('\n)')[0]
    names = [part.partition(']')[0] for part in options.split('[')[1:]]
    assert len(names) > 15
    for name in {*names} - {'backend'}:
        assert f'--{name}' in ended.stdout, name
    for name in [
        'create',
        'setup',
        'sync',
        'run',
        'logs',
        'status',
        'stop',
        'delete',
        'loop',
    ]:
        assert f' {name}  ' in ended.stdout, name


def test_shellcheck_finds_nothing():
    beside = pathlib.Path(sys.executable).parent / 'shellcheck'
    result = subprocess.run(
        [beside if beside.exists() else 'shellcheck', SCRIPT, ROOT / '.ci' / 'run'],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout
