"""Takes the arguments of a run and leaves what one leaves, in milliseconds a step.

As a run, it goes on from its newest checkpoint, and its figures depend on its seed, its
arm and its first policy alone. It notes in ``<root>/notes`` who made a warm start, and
whether two processes had one directory.
"""

import fcntl
import json
import os
import pathlib
import shutil
import sys
import time
import zlib

SECONDS = float(os.environ.get('FAKE_SECONDS', '0.001'))
EVERY = 3


def main(arguments: list[str]) -> int:
    options = dict(argument.lstrip('-').split('=', 1) for argument in arguments)
    workdir = pathlib.Path(options.pop('workdir'))
    workdir.mkdir(parents=True, exist_ok=True)
    lock = (workdir / 'lock').open('w')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(workdir, 'doubled')
        return 9
    if workdir.name == os.environ.get('FAKE_FAILS'):
        print('one\n\nit was the disk', flush=True)
        return 3
    steps = int(options['config.train.steps'])
    first = first_policy(options, workdir)
    run(workdir, steps=steps, arm=options['config.advantage.name'], first=first)
    return 0


def note(workdir: pathlib.Path, what: str) -> None:
    with (workdir.parent / 'notes').open('a') as stream:
        stream.write(f'{what} {workdir.name}\n')


def first_policy(options: dict[str, str], workdir: pathlib.Path) -> str:
    """A text for a policy."""
    if source := options.get('config.init.checkpoint'):
        return str(
            max(int(x.name) for x in (pathlib.Path(source) / 'checkpoints').iterdir())
        )
    warm_start = workdir / 'warm_start' / '0'
    if not (warm_start / 'commit.json').exists():
        time.sleep(5 * SECONDS)
        shutil.rmtree(warm_start, ignore_errors=True)
        warm_start.mkdir(parents=True)
        (warm_start / 'policy').write_text(options['config.seed'])
        # Others may look while it is saved.
        time.sleep(5 * SECONDS)
        note(workdir, 'made')
        (warm_start / 'commit.json').touch()
    return (warm_start / 'policy').read_text()


def run(workdir: pathlib.Path, *, steps: int, arm: str, first: str) -> None:
    checkpoints = workdir / 'checkpoints'
    checkpoints.mkdir(exist_ok=True)
    start = max((int(x.name) for x in checkpoints.iterdir()), default=0)
    metrics = workdir / 'metrics.jsonl'
    lines = metrics.read_text().split('\n') if metrics.exists() else []
    remaining = [x for x in lines if x.endswith('}') and json.loads(x)['step'] < start]
    # Unlike the real program, but also atomic.
    (workdir / 'rest').write_text(''.join(f'{x}\n' for x in remaining))
    (workdir / 'rest').rename(metrics)
    with metrics.open('a') as stream:
        for step in range(start, steps + 1):
            if step in (0, steps):
                # Before the first step only the policy counts.
                who = os.environ.get('FAKE_MACHINE', '') if step == 0 else arm
                for split in ('validation', 'test'):
                    write(stream, who, first, split, step)
            if step % EVERY == 0 or step == steps:
                (checkpoints / str(step)).mkdir(exist_ok=True)
                (checkpoints / str(step) / 'commit.json').touch()
            if step < steps:
                time.sleep(SECONDS)
                write(stream, arm, first, 'train', step)


def write(stream, *what: str | int) -> None:
    """A line of figures that depend on ``what`` alone."""
    value = zlib.crc32(repr(what).encode()) / 2**32
    *_, split, step = what
    row = {'step': step, 'stage': 0, 'split': split, 'reward': value}
    if split != 'train':
        row |= {'pass_at_1': value / 2, 'pass_at_4': value}
    stream.write(json.dumps(row) + '\n')
    stream.flush()


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
