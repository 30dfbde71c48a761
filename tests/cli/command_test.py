"""What a person sees who asks for what cannot be: a clear line and no traceback."""

import json
import os
import subprocess
import sys

import pytest

from passk_jax import cli
from passk_jax.tasks import TASKS
from tests import tiny

# Forks before each program, so that they share the time that imports take.
_SCRIPT = """
import json, os, runpy, sys, traceback
exec(sys.argv[1])
for name, program, arguments in json.loads(sys.argv[2]):
    read, write = os.pipe()
    if not os.fork():
        os.dup2(write, 1), os.dup2(write, 2)
        os.close(read), os.close(write)
        sys.argv, status = [name, *arguments], 0
        try:
            exec(program)
        except SystemExit as exit:
            status = exit.code or 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush(), sys.stderr.flush()
        # At once: to take the interpreter down in order costs more than all this.
        os._exit(status)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.wait()[1]), said]), flush=True)
"""


def run_all(imports, programs, **environment):
    """Exit status and output of each program: a name, its lines, and its arguments."""
    result = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', _SCRIPT, imports, json.dumps(programs)],
        cwd=tiny.ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [tuple(json.loads(line)) for line in result.stdout.splitlines()]


_TRAIN = ('--config=tests/tiny.py', '--workdir={workdir}')

# Config files that are none.
_FILES = {
    'imports': '# of two lines\nimport absent',
    'misspells': """from tests import tiny
def get_config():
    config = tiny.get_config()
    config.advantage.kk = 2
    return config
""",
    'raises': 'def get_config():\n    raise ValueError("mine")',
    'python2': 'print "mine"',
    'empty': '',
    'dict': 'def get_config():\n    return {"seed": 1}',
}

# Command, arguments -> what the message must name.
CASES = {
    'no config': (
        'train',
        ['--workdir={workdir}'],
        ['--config is required', 'python -m passk_jax.train'],
    ),
    'no such config': ('train', ['--config=absent.py'], ['absent.py: no such file']),
    'no such config, and an override': (
        'train',
        ['--config=absent.py', '--config.seed=1'],
        ['absent.py: no such file'],
    ),
    'a config that imports what is not there': (
        'train',
        ['--config={files}/imports.py', '--config.seed=1'],
        ["imports.py, line 2: ModuleNotFoundError: No module named 'absent'"],
    ),
    'a config with a misspelt key': (
        'train',
        ['--config={files}/misspells.py'],
        ['misspells.py, line 4: AttributeError', 'Key "kk" does not exist'],
    ),
    'a config that raises': (
        'train',
        ['--config={files}/raises.py'],
        ['raises.py, line 2: ValueError: mine'],
    ),
    'a config that is no Python': (
        'train',
        ['--config={files}/python2.py'],
        ['python2.py, line 1: SyntaxError: '],
    ),
    'a config without get_config': (
        'train',
        ['--config={files}/empty.py'],
        ['empty.py: it defines no get_config()'],
    ),
    'a config that is a dict': (
        'train',
        ['--config={files}/dict.py'],
        ['get_config() must return a ConfigDict, not a dict'],
    ),
    'unknown kind of demonstrations': (
        'train',
        [*_TRAIN, '--config.init.warm_start.demonstrations=longest'],
        [
            "init.warm_start.demonstrations='longest'",
            "['shortest_path', 'ignore_walls']",
        ],
    ),
    'unknown key': (
        'train',
        [*_TRAIN, '--config.advantage.kk=2'],
        ['--config.advantage.kk=2: unknown key', 'did you mean advantage.k'],
    ),
    'misspelt key': (
        'train',
        [*_TRAIN, '--config.train.step=3'],
        ['--config.train.step=3: unknown key', 'did you mean train.steps'],
    ),
    'misspelt section': (
        'train',
        [*_TRAIN, '--config.advantag.k=2'],
        ['--config.advantag.k=2: unknown key', 'did you mean advantage.k'],
    ),
    "a task's misspelt key": (
        'train',
        [*_TRAIN, '--config.task.params.train_size=(3,)'],
        ['--config.task.params.train_size=(3,)', 'task.params.train_sizes'],
    ),
    'unknown flag': (
        'train',
        [*_TRAIN, '--workdri=3'],
        ['unknown flag --workdri=3; did you mean --workdir?'],
    ),
    'wrong type': (
        'train',
        [*_TRAIN, '--config.train.steps=many'],
        ['--config.train.steps=many must be of type int'],
    ),
    'leftover value': (
        'train',
        [*_TRAIN, '--config.log.tensorboard', 'false'],
        ["not understood: ['false']", '--config.log.tensorboard=false'],
    ),
    'k above N': ('train', [*_TRAIN, '--config.advantage.k=5'], ['advantage.k=5', '4']),
    'no whole mini-batches': (
        'train',
        [*_TRAIN, '--config.train.mini_batch_prompts=3'],
        ['train.mini_batch_prompts=3 must divide train.num_prompts=8'],
    ),
    'more rollouts than memory': (
        'train',
        [
            *_TRAIN,
            '--config.sampling.num_rollouts=10000000',
            '--config.sampling.max_response_tokens=1000000',
        ],
        ['sampling.num_rollouts=10000000, ', 'take at least 298,0', 'of this host'],
    ),
    'more responses to evaluate than memory': (
        'train',
        [
            *_TRAIN,
            '--config.eval.num_responses=10000000',
            '--config.eval.batch_size=1000000',
        ],
        ['eval.batch_size=1000000, eval.num_responses=10000000', 'of this host'],
    ),
    'a warm-up beyond integers': (
        'train',
        [*_TRAIN, '--config.optimizer.warmup_updates=10000000000000000000'],
        ['optimizer.warmup_updates=10000000000000000000 must'],
    ),
    'a workdir that a shell left empty': (
        'train',
        ['--config=tests/tiny.py', '--workdir='],
        ['--workdir= is empty'],
    ),
    'unknown estimator': (
        'train',
        [*_TRAIN, '--config.advantage.name=pass_at_q'],
        ["'pass_at_q'", 'pass_at_k', 'adaptive'],
    ),
    'unknown task': (
        'train',
        [*_TRAIN, '--config.task.name=amaze'],
        [f"task 'amaze' is none of {sorted(TASKS)}"],
    ),
    'unknown split': (
        'train',
        [*_TRAIN, '--config.eval.split=tset'],
        ["'tset'", "['train', 'validation', 'test']"],
    ),
    'unknown family': (
        'train',
        [*_TRAIN, '--config.model.family=gpt'],
        ["'gpt'", "'qwen2'"],
    ),
    'evaluate nothing': (
        'evaluate',
        [],
        ['--workdir is required', 'python -m passk_jax.evaluate'],
    ),
    'evaluate no run': (
        'evaluate',
        ['--workdir={workdir}'],
        ['is not a run directory', 'config.json is absent'],
    ),
    'score leftover values': (
        'score',
        ['--task=maze', '--input', 'i', '--output=o', 'more'],
        ["not understood: ['more']"],
    ),
    'score nothing': (
        'score',
        ['--task=maze', '--output=o'],
        ['--input is required', 'python -m passk_jax.score --task=maze --input='],
    ),
    'score for an unknown task': (
        'score',
        ['--task=amaze', '--input=i', '--output=o'],
        [f"task 'amaze' is none of {sorted(TASKS)}"],
    ),
    'export without a place': (
        'export',
        ['--workdir={workdir}'],
        ['--out is required', 'python -m passk_jax.export --workdir='],
    ),
    'export in an unknown type': (
        'export',
        ['--workdir={workdir}', '--out={workdir}', '--dtype=int8'],
        ["dtype='int8'", "['bfloat16', 'float32']"],
    ),
    'plan for no chips': (
        'plan',
        ['--config=tests/tiny.py'],
        ['--topology is required', 'python -m passk_jax.plan --config='],
    ),
}

_VALID = ('train', ['--config=tests/tiny.py', '--workdir={workdir}_valid'], [])


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
    """Exit status and output of every case."""
    files = tmp_path_factory.mktemp('cli')
    for name, content in _FILES.items():
        (files / f'{name}.py').write_text(content)
    workdir = files / 'run'
    run = 'runpy.run_module("passk_jax.{}", run_name="__main__", alter_sys=True)'
    programs = [
        (
            name,
            run.format(name),
            [a.format(workdir=workdir, files=files) for a in arguments],
        )
        for name, arguments, _ in [*CASES.values(), _VALID]
    ]
    modules = ('cli', 'evaluation.evaluate', 'report.run_log', 'setup.setup')
    # No such platform: whoever starts a backend fails otherwise.
    outputs = run_all(
        '\n'.join(f'import passk_jax.{name}' for name in modules),
        programs,
        JAX_PLATFORMS='no_such_platform',
    )
    assert not workdir.exists(), 'a command that cannot run leaves nothing behind'
    return dict(zip([*CASES, 'valid'], outputs, strict=True))


@pytest.mark.parametrize('case', CASES)
def test_what_cannot_be_done_is_said_clearly_before_jax_starts(case, answers):
    status, output = answers[case]
    assert status == cli.EXIT_ERROR, output
    assert output.startswith('error: ')
    assert 'Traceback' not in output
    # A line, and an example, of perhaps two, if a flag is absent.
    lines = output.replace('\\\n', '').splitlines()
    assert len(lines) == (2 if 'required' in output else 1)
    for words in CASES[case][2]:
        assert words in output


def test_what_can_be_done_gets_as_far_as_jax(answers):
    """Or else the tests above would not see whether a backend was started."""
    status, output = answers['valid']
    assert status == 1
    assert 'no_such_platform' in output
