"""How a command ends: exit statuses, lines of errors, and what a locale can print."""

import subprocess
import sys

import pytest

from passk_jax import cli
from tests import tiny
from tests.cli.command_test import run_all

# The body of a main -> the line that it ends with.
EXPLAINED = {
    'raise errors.InputError("k=9 is too large")': 'k=9 is too large',
    'raise MemoryError("60 GiB")': (
        'out of memory (60 GiB): python -m passk_jax.plan says what fits'
    ),
    # As XLA raises it.
    'raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory.\\nAnd more.")': (
        'out of memory (RESOURCE_EXHAUSTED: Out of memory.): '
        'python -m passk_jax.plan says what fits'
    ),
    'raise errors.NonFiniteError("the loss is nan")': 'the loss is nan',
    # A model with a missing tensor a line; at most 20 lines.
    'raise errors.InputError("\\n".join(map(str, range(999))))': (
        '\n'.join([*map(str, range(19)), '... and 980 lines more'])
    ),
    'open("/absent/file")': '/absent/file: No such file or directory',
    # As one finds it inside a library.
    'import shutil; shutil.rmtree("/absent")': '/absent: No such file or directory',
    'import os; os.write(os.open("/dev/full", 1), b"?")': 'No space left on device',
}
DEFECTS = (
    'import numpy; numpy.ones(2) + numpy.ones(3)',
    'int("many")',
    'raise ValueError("nobody meant this")',
    'raise FloatingPointError("as numpy and JAX raise it")',
    'raise OSError("as transformers raises it")',
    'raise KeyError("never mind")',
    'raise RuntimeError("INTERNAL: as XLA raises it")',
)
STATUSES = {'return 0': 0, 'return 1': 1, 'return 42': 42, 'pass': 0}


@pytest.fixture(scope='module')
def mains():
    """Exit status and output of commands, by the body of main and the arguments."""
    calls = [(body, ()) for body in (*EXPLAINED, *DEFECTS, *STATUSES)]
    calls += [(body, ('--debug',)) for body in EXPLAINED]
    programs = [
        ('-c', f'def main():\n    {body}\ncli.run(main)', arguments)
        for body, arguments in calls
    ]
    outputs = run_all('from passk_jax import cli, errors', programs)
    return dict(zip(calls, outputs, strict=True))


@pytest.mark.parametrize('body', EXPLAINED)
def test_an_error_that_explains_itself_is_a_line_and_a_traceback_on_demand(body, mains):
    assert mains[body, ()] == (2, f'error: {EXPLAINED[body]}\n')
    status, output = mains[body, ('--debug',)]
    assert status == 1
    assert 'Traceback' in output


@pytest.mark.parametrize('body', DEFECTS)
def test_any_other_error_is_a_defect_and_keeps_its_traceback(body, mains):
    status, output = mains[body, ()]
    assert status == 1
    assert 'Traceback' in output


@pytest.mark.parametrize('body', STATUSES)
def test_the_status_of_a_command_is_what_its_main_returns(body, mains):
    assert mains[body, ()] == (STATUSES[body], '')


def test_importing_it_does_not_import_jax():
    script = 'import sys, passk_jax.cli; sys.exit("jax" in sys.modules)'
    subprocess.run([sys.executable, '-c', script], cwd=tiny.ROOT, check=True)


def test_no_error_is_longer_than_a_screen():
    few = '\n'.join(map(str, range(20)))
    assert cli.command.shorten(few) == few
    text = cli.command.shorten('\n'.join(f'tensor {i}' for i in range(900_015)))
    lines = text.splitlines()
    assert len(lines) == 20
    assert lines[0] == 'tensor 0'
    assert lines[-1] == '... and 899,996 lines more'
    assert len(cli.command.shorten('x' * 10**7)) < 2100


def test_what_a_locale_has_no_bytes_for_is_printed_and_buckets_are_no_paths(tmp_path):
    program = (
        'import sys; from passk_jax import cli\n'
        'def main(*, workdir=None):\n    print(f"Â {workdir}")\n'
        'main.__module__ = "sys"; cli.run(main)'
    )
    environment = {'LC_ALL': 'C', 'PYTHONUTF8': '0', 'PYTHONCOERCECLOCALE': '0'}
    programs = [
        ('a', program, ['--workdir=b']),
        ('a', program, ['--workdir=gs://bucket/run']),
        ('a', program, ['--workdir=file:///tmp/x']),
    ]
    good, *bad = run_all('import passk_jax.cli', programs, **environment)
    assert good[0] == 0
    assert r'\xc2 b' in good[1]
    for status, output in bad:
        assert status == 2
        assert 'must be a path of this machine' in output
        assert len(output.splitlines()) == 1
