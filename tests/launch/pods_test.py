"""The commands of the launcher in docs/pods.md are commands that it takes."""

import re

import pytest

from tests.launch.fakes import ROOT, Launcher, commands_of, words_of

BLOCKS = re.findall(
    r'```sh\n(.*?)```', (ROOT / 'docs' / 'pods.md').read_text(), re.DOTALL
)
LINES = [x for x in ''.join(BLOCKS).splitlines() if x.startswith('./launch_tpu.sh')]


@pytest.fixture(scope='module')
def launcher(tmp_path_factory):
    return Launcher(tmp_path_factory.mktemp('readme') / 'here')


def test_it_leads_from_nothing_to_a_run_and_back():
    verbs = [words_of(line)[1] for line in LINES if '--backend=queued' in line]
    assert verbs == ['create', 'setup', 'sync', 'run', 'logs', 'stop', 'delete']
    verbs = [words_of(line)[1] for line in LINES if '--backend=xpk' in line]
    assert verbs == ['create', 'setup', 'sync', 'loop', 'logs', 'stop', 'delete']


@pytest.mark.parametrize('line', LINES)
def test_a_command_of_the_page_is_one_that_the_launcher_takes(launcher, line):
    _, command, *arguments = words_of(line)
    ended = launcher(command, '--dry-run', *arguments)
    assert ended.returncode == 0, ended.stderr
    assert not launcher.calls()
    # An archive is made here, which prints nothing.
    assert commands_of(ended.stdout) or command == 'sync'
    if '--backend=queued' in line and command == 'run':
        assert '--expect=16' in ended.stdout
        assert len(commands_of(ended.stdout)) == 17
