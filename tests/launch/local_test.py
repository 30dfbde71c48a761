"""The local backend starts, follows, signals and ends its processes; loop restarts."""

import shutil
import signal
import time

import pytest

from tests.launch.fakes import Launcher, commands_of

# Arguments that a shell would split, expand or run.
NASTY = (
    'two words',
    "it's",
    'say "no"',
    '$(touch x)',
    '`touch x`',
    'a\nb',
    '; touch x',
    '\\',
    '*',
    '--',
    '',
    '~',
    '!!',
    'ä€',
)
TRAIN = ('--config=configs/maze_tiny.py', '--workdir=runs/a')
BASH = shutil.which('bash')


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path / 'here')


def run(launcher, *options, command='run', train=TRAIN):
    return [*launcher.options(command, 'local'), *options, '--', *train]


def test_each_process_has_its_number_and_all_have_the_arguments(launcher):
    train = (*TRAIN, *NASTY)
    ended = launcher(*run(launcher, '--processes=2', train=train))
    assert ended.returncode == 0, ended.stderr
    expected = [
        [
            *('-m', 'passk_jax.train', f'--hosts=localhost:12345,2,{index}'),
            *('--expect=2,8', *train),
        ]
        for index in range(2)
    ]
    assert launcher.trained() == expected
    assert '[0] the trainer begins' in ended.stdout
    for index in range(2):
        log = launcher.place / 'logs' / f'worker-{index}.log'
        assert 'the trainer begins' in log.read_text()
    assert not (launcher.place / 'x').exists()


def test_a_dry_run_prints_what_is_run(launcher):
    arguments = run(launcher, '--processes=3', train=(*TRAIN, *NASTY))
    dry = [arguments[0], '--dry-run', *arguments[1:]]
    printed = commands_of(launcher(*dry).stdout)
    assert not launcher.trained()
    launcher(*arguments)
    ran = [line[line.index('-m') :] for line in printed]
    assert ran == launcher.trained()
    for line in printed:
        assert {'JAX_PLATFORMS=cpu', 'JAX_NUM_CPU_DEVICES=4'} < {*line}


def test_one_process_may_have_the_real_devices(launcher):
    options = ('--devices-per-process=all',)
    (line,) = commands_of(launcher(*run(launcher, '--dry-run', *options)).stdout)
    assert line == ['env', str(launcher.trainer), '-m', 'passk_jax.train', *TRAIN]


@pytest.mark.parametrize('status', [0, 1, 2, 42])
def test_the_status_is_that_of_the_processes(launcher, status):
    launcher.statuses(str(status))
    assert launcher(*run(launcher, '--processes=2')).returncode == status


def test_a_failure_counts_more_than_a_preemption(launcher):
    launcher.statuses('42', '3', '42')
    assert launcher(*run(launcher, '--processes=3')).returncode == 3


def test_a_killed_process_is_named_and_ends_the_others(launcher):
    launcher.statuses('second')
    start = time.monotonic()
    ended = launcher(*run(launcher, '--processes=2'))
    assert time.monotonic() - start < 20
    assert ended.returncode == 128 + signal.SIGKILL
    assert 'worker 1 was ended by SIGKILL' in ended.stderr
    assert '[1] the trainer begins' in ended.stderr


def begin(launcher, *arguments, count=1):
    """Starts the launcher and waits until its processes handle signals."""
    process = launcher.start(*arguments)
    while len([*launcher.place.glob('ready.*')]) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_all_and_is_a_preemption(launcher, number):
    launcher.statuses('wait')
    # A shell cannot trap what it is told to ignore, as under nohup or in background.
    before = signal.signal(number, signal.SIG_DFL)
    process = begin(launcher, *run(launcher, '--processes=2'), count=2)
    signal.signal(number, before)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 42, error
    assert len(launcher.trained()) == 2


def test_a_second_signal_ends_all_at_once(launcher):
    launcher.statuses('deaf')
    process = begin(launcher, *run(launcher, '--processes=2'), count=2)
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGKILL


def test_status_logs_and_stop_find_the_run(launcher):
    launcher.statuses('wait')
    options = {c: launcher.options(c, 'local') for c in ('status', 'logs', 'stop')}
    assert 'nothing runs here' in launcher(*options['stop']).stderr
    assert launcher(*options['stop']).returncode == 1
    process = begin(launcher, *run(launcher))
    assert f'running as process {process.pid}' in launcher(*options['status']).stdout
    other = launcher(*run(launcher))
    assert other.returncode == 2
    assert f'process {process.pid} runs here as passk' in other.stderr
    assert launcher(*options['stop']).returncode == 0
    process.communicate(timeout=30)
    assert process.returncode == 42
    assert 'not running' in launcher(*options['status']).stdout
    assert 'the trainer begins' in launcher(*options['logs']).stdout


def test_a_number_that_an_ended_run_left_is_no_run(launcher):
    logs = launcher.place / 'logs'
    logs.mkdir()
    # In a container, a launcher often has the number of the one before.
    line = f'echo $$ > {logs}/launcher.pid; exec "$0" "$@"'
    ended = launcher(*run(launcher), by=(BASH, '-c', line))
    assert ended.returncode == 0, ended.stderr
    command = (logs / 'launcher.pid').read_text().partition('\n')[2]
    assert command
    # Another launcher has the number of one that has ended.
    launcher.statuses('wait')
    process = begin(launcher, *run(launcher, '--processes=2'), count=2)
    (logs / 'launcher.pid').write_text(f'{process.pid}\n{command}')
    assert 'not running' in launcher(*launcher.options('status', 'local')).stdout
    process.terminate()
    process.communicate(timeout=30)


def test_bash_may_be_told_the_name_alone(launcher):
    line = 'cd "${0%/*}" && exec bash "${0##*/}" "$@"'
    ended = launcher(*run(launcher, command='loop'), by=(BASH, '-c', line))
    assert ended.returncode == 0, ended.stderr
    assert len(launcher.trained()) == 1


@pytest.mark.parametrize(
    ('statuses', 'options', 'status', 'runs'),
    [
        (('0',), (), 0, 1),
        (('42', '1', '42', '0'), (), 0, 4),
        (('1', '1', '1', '0'), ('--max-failures=2',), 1, 3),
        (('42', '42', '42', '0'), ('--max-preemptions=2',), 42, 3),
        (('42', '42', '1', '1', '0'), ('--max-failures=1',), 1, 4),
        (('42', '1', '42', '0'), ('--max-restarts=2',), 42, 3),
        (('kill', '0'), (), 0, 2),
        (('1', '0'), ('--max-failures=0',), 1, 1),
        # It says that its arguments are wrong, so they would be again.
        (('2', '0'), (), 2, 1),
    ],
)
def test_loop_restarts_within_its_budgets(launcher, statuses, options, status, runs):
    launcher.statuses(*statuses)
    arguments = run(launcher, '--backoff=0', *options, command='loop')
    ended = launcher(*arguments)
    assert ended.returncode == status, ended.stderr
    expected = ['-m', 'passk_jax.train', '--expect=1,4', *TRAIN]
    assert launcher.trained() == [expected] * runs


def test_loop_waits_longer_each_time(launcher):
    launcher.statuses('1')
    ended = launcher(*run(launcher, '--backoff=1', '--max-failures=2', command='loop'))
    waits = [line.split()[-2] for line in ended.stderr.splitlines() if 'again' in line]
    assert waits == ['1', '2']


def test_loop_does_not_restart_what_it_was_told_to_stop(launcher):
    launcher.statuses('wait')
    process = begin(launcher, *run(launcher, command='loop'))
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 42
    assert len(launcher.trained()) == 1
