"""A gcloud, kubectl and xpk that do it here, write down what they were asked, and fail.

A worker of the slice is a folder that stands for its home: what is copied to it and run
on it is copied and run there. :class:`Launcher` runs the script beside them.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / 'launch_tpu.sh'
SLICE = ('--zone=us-central1-a', '--type=v5litepod-8')
TRAIN = ('--config=configs/maze_tiny.py', '--workdir=/runs/a')

_TOOL = r"""
import fcntl, json, os, pathlib, shutil, subprocess, sys

place, argv = pathlib.Path(os.environ['FAKES']), sys.argv[1:]
tool, line = pathlib.Path(sys.argv[0]).name, ' '.join(sys.argv[1:])


def value(name, default=None):
    found = [x.split('=', 1)[1] for x in argv if x.startswith(f'--{name}=')]
    return found[0] if found else default


def homes():
    count = int((place / 'workers').read_text())
    worker = value('worker', '0')
    chosen = range(count) if worker == 'all' else [int(worker)]
    return [place / f'home-{index}' for index in chosen]


def on(command, folder):
    path = f'{place}/bin:{os.environ["PATH"]}'
    environment = os.environ | {'HOME': str(folder), 'PATH': path}
    line = ['bash', '-c', command]
    return subprocess.run(line, cwd=folder, env=environment).returncode


with open(place / 'lock', 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(place / 'calls', 'a') as calls:
        print(json.dumps([tool, *argv]), file=calls)
    cues = json.loads((place / 'cues').read_text())
    cue = next((c for c in cues if c['times'] and c['words'] in f'{tool} {line}'), None)
    if cue:
        cue['times'] -= 1
        (place / 'cues').write_text(json.dumps(cues))
if cue:
    print(cue['out'], end='')
    print(cue['error'], file=sys.stderr)
    sys.exit(cue['status'])
if tool == 'gcloud' and ' ssh ' in line and 'uv venv' not in line:
    sys.exit(max(on(value('command'), home) for home in homes()))
if tool == 'gcloud' and ' scp ' in line:
    source, target = argv[argv.index('scp') + 1 :][:2]
    for home in homes():
        shutil.copy(source, home / target.partition(':')[2])
if ' describe ' in line:
    print('ACTIVE' if 'queued' in line else 'READY')
if line.startswith('workload create'):
    folder = place / 'app'
    shutil.copytree(value('script-dir'), folder, dirs_exist_ok=True)
    # The container's own Kubernetes makes one dollar of two.
    sys.exit(on(value('command').replace('$$', '$'), folder))
if line.startswith('get jobset') and 'terminalState' in line:
    print('Completed', end='')
"""

# Writes its arguments; ends with the next of the statuses that the test gave.
_TRAINER = r"""#!/usr/bin/env bash
printf '%s\0' "$@" > "$FAKES/trainer.$$"
mv "$FAKES/trainer.$$" "$FAKES/trained.$$"
[[ $1 == -m && $2 == passk_jax.train ]] || exit 0
echo "the trainer begins; TOKEN is ${TOKEN:-not set}"
exec 9> "$FAKES/statuses.lock"
flock 9
read -r status rest < "$FAKES/statuses"
echo "${rest:-$status}" > "$FAKES/statuses"
exec 9>&-
case $status in
  wait) trap 'exit 42' TERM; : > "$FAKES/ready.$$"; while true; do sleep 0.1; done ;;
  deaf) trap '' TERM; : > "$FAKES/ready.$$"; while true; do sleep 0.1; done ;;
  kill) kill -KILL $$ ;;
  second) case "$*" in *,2,1\ *) kill -KILL $$ ;; *) sleep 60 ;; esac ;;
  *) exit "$status" ;;
esac
"""

# A tenth of what the script and the trainer ask for.
_SLEEP = r"""#!/bin/sh
case $1 in
  0.*) exec "$SLEEP" "0.0${1#0.}" ;;
  *) exec "$SLEEP" "${1%?}.${1#"${1%?}"}" ;;
esac
"""

# Lets the script wait for what its workers leave, for the first process may be slow; 36
# is PR_SET_CHILD_SUBREAPER. Python ignores SIGPIPE.
_ADOPT_ORPHANS = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclasses.dataclass
class Launcher:
    """launch_tpu.sh in a folder of its own, beside the fakes."""

    place: pathlib.Path

    def __post_init__(self) -> None:
        (self.place / 'bin').mkdir(parents=True)
        self.code = self.place / 'code'
        (self.code / 'passk_jax').mkdir(parents=True)
        for name in ('launch_tpu.sh', 'requirements.txt', 'passk_jax/train.py'):
            shutil.copy(ROOT / name, self.code / name)
        (self.code / '.gitignore').write_text('/runs/\n')
        self.git('init', '--quiet')
        self.git('add', '.')
        self.git('commit', '--quiet', '--message=code')
        self.tool('gcloud', f'#!{sys.executable} -ISs\n{_TOOL}')
        for name in ('kubectl', 'xpk'):
            (self.place / 'bin' / name).symlink_to('gcloud')
        self.tool('sleep', _SLEEP)
        self.trainer = self.tool('trainer', _TRAINER)
        (self.place / 'bin' / 'python').symlink_to('trainer')
        self.statuses('0')
        self.workers(1)
        self.cues = []
        (self.place / 'cues').write_text('[]')
        (self.place / 'calls').touch()

    def git(self, *arguments: str) -> str:
        """Runs git in the code that is launched, which is a small part of ours."""
        who = ('-c', 'user.name=a', '-c', 'user.email=a@b')
        line = ['git', '-C', self.code, *who, *arguments]
        return subprocess.check_output(line, text=True)

    def tool(self, name: str, text: str) -> pathlib.Path:
        path = self.place / 'bin' / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def workers(self, count: int) -> None:
        """Makes the homes of so many workers, with Python set up."""
        (self.place / 'workers').write_text(str(count))
        for index in range(count):
            folder = self.place / f'home-{index}' / 'passk_jax' / 'venv' / 'bin'
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / 'python').exists():
                (folder / 'python').symlink_to(self.trainer)

    def statuses(self, *statuses: str) -> None:
        """How each run of the trainer ends; the last one is repeated."""
        (self.place / 'statuses').write_text(' '.join(statuses) + '\n')

    def cue(
        self, words: str, status: int, error: str = '', out: str = '', times: int = 1
    ) -> None:
        """Answers the next calls with these words by this."""
        cue = {'words': words, 'status': status, 'error': error, 'out': out}
        self.cues.append(cue | {'times': times})
        (self.place / 'cues').write_text(json.dumps(self.cues))

    def options(self, command: str, backend: str) -> list[str]:
        options = [command, f'--backend={backend}', f'--logs={self.place}/logs']
        if backend == 'local':
            return [*options, f'--python={self.trainer}', '--port=12345']
        if backend == 'xpk' and command in ('run', 'loop'):
            options.append('--storage=runs')
        return [*options, *SLICE]

    def start(
        self, *arguments: str, by: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen:
        """Starts the script, or ``by`` with the script as its first argument."""
        environment = {
            'PATH': f'{self.place}/bin:{os.environ["PATH"]}',
            'FAKES': str(self.place),
            'SLEEP': shutil.which('sleep'),
            'LAUNCH_END_SECONDS': '1',
            'LAUNCH_POLL_SECONDS': '0',
        } | environment
        adopting = [sys.executable, '-ISsc', _ADOPT_ORPHANS]
        return subprocess.Popen(
            [*adopting, *by, self.code / 'launch_tpu.sh', *arguments],
            cwd=self.place,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, *arguments: str, by: tuple[str, ...] = (), **environment: str
    ) -> Any:
        """Runs the script to its end; gives it back with ``returncode`` and texts."""
        process = self.start(*arguments, by=by, **environment)
        out, error = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    def calls(self) -> list[list[str]]:
        """What the fakes were asked since the last time, the program first."""
        path = self.place / 'calls'
        calls = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text('')
        return calls

    def trained(self) -> list[list[str]]:
        """The arguments of each process of the trainer since the last time."""
        commands = []
        for path in self.place.glob('trained.*'):
            commands.append(path.read_bytes().decode().split('\0')[:-1])
            path.unlink()
        return sorted(commands)


def words_of(line: str) -> list[str]:
    """The words that a shell reads from a line of ``--dry-run``."""
    script = f"printf '%s\\0' {line}"
    read = subprocess.run(['bash', '-c', script], capture_output=True, check=True)
    return read.stdout.decode().split('\0')[:-1]


def commands_of(printed: str) -> list[list[str]]:
    return [words_of(line) for line in printed.splitlines()]


def distinct(calls: list[list[str]]) -> list[list[str]]:
    """Without the repetitions of waiting."""
    return [call for i, call in enumerate(calls) if call not in calls[:i]]


def one_line(error: str) -> str:
    """The message of a refusal, which is a single line."""
    match = re.fullmatch(r'launch_tpu: error: (.*)\n', error)
    assert match, error
    return match[1]
