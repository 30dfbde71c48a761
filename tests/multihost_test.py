"""Two processes that share a mesh do what one does."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 2


def start(workdir: pathlib.Path, *options: str) -> subprocess.Popen:
    command = [
        *(sys.executable, '-m', 'passk_jax.train', '--config=tests/tiny.py'),
        f'--workdir={workdir}',
        *('--config.mesh.data=-1', '--config.mesh.fsdp=1'),
        f'--config.train.steps={STEPS}',
        *('--config.eval.every=0', '--config.eval.final_split='),
        '--config.init.warm_start.steps=5',
        *options,
    ]
    # One device a process; the fake ones of conftest.py are not inherited.
    environment = os.environ | {'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '1'}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )


def lines(workdir: pathlib.Path) -> list[dict]:
    text = (workdir / 'metrics.jsonl').read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_two_processes_train_as_one_does(tmp_path):
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = probe.getsockname()[1]
    alone = start(tmp_path / 'one')
    pair = [
        start(tmp_path / 'two', f'--hosts=localhost:{port},2,{index}')
        for index in range(2)
    ]
    for process in (alone, *pair):
        _, said = process.communicate(timeout=900)
        assert process.returncode == 0, said
    one, two = lines(tmp_path / 'one'), lines(tmp_path / 'two')
    assert [line['step'] for line in one] == [line['step'] for line in two]
    for a, b in zip(one, two, strict=True):
        # The same responses, token for token; sums in another order.
        assert a['response_length'] == b['response_length']
        assert a['reward'] == b['reward']
        assert a['loss'] == pytest.approx(b['loss'], abs=1e-5)
