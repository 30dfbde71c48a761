import pytest
from absl import flags

from configs import math, maze_tiny
from passk_jax import config as configs
from passk_jax.cli import config_file
from passk_jax.errors import InputError

# Content of a file -> the message without the file's name.
FAULTY = {
    '# of two lines\nimport absent': (
        ", line 2: ModuleNotFoundError: No module named 'absent'"
    ),
    'def get_config():\n    raise ValueError("mine")': ', line 2: ValueError: mine',
    'import json\ndef get_config():\n    json.loads("")': (
        ', line 3: JSONDecodeError: Expecting value: line 1 column 1 (char 0)'
    ),
    'from passk_jax.errors import InputError\n'
    'def get_config():\n    raise InputError("no such model")': ': no such model',
    'import sys\ndef get_config():\n    sys.exit(0)': ', line 3: SystemExit: 0',
    'import sys\nsys.exit()': ', line 2: SystemExit',
    'def get_config():\n    raise SystemExit("over")': ', line 2: SystemExit: over',
    'def get_config():\n    raise GeneratorExit': ', line 2: GeneratorExit',
    'def get_config():\n    return get_config()': ', line 2: RecursionError: ',
    'print "mine"': ', line 1: SyntaxError: ',
    '': ': it defines no get_config()',
    'def get_config():\n    return {"seed": 1}': (
        ': get_config() must return a ConfigDict, not a dict'
    ),
}


def test_it_is_what_get_config_returns():
    assert config_file.load('configs/maze_tiny.py') == maze_tiny.get_config()


def test_what_follows_a_colon_is_the_functions_argument(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'from ml_collections import ConfigDict\n'
        'def get_config(arg):\n    return ConfigDict({"arg": arg})'
    )
    assert config_file.load(f'{path}:a=1:b').arg == 'a=1:b'
    with pytest.raises(InputError, match=r'mine.py: TypeError: .* missing 1 required'):
        config_file.load(str(path))


@pytest.mark.parametrize('content', FAULTY)
def test_an_error_of_the_file_has_its_line(content, tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(content)
    with pytest.raises(InputError) as error:
        config_file.load(str(path))
    assert str(error.value).startswith(f'{path}{FAULTY[content]}')


@pytest.mark.parametrize('path', ['absent.py', 'configs', 'absent.py:model=x'])
def test_what_is_no_file_is_named(path):
    with pytest.raises(InputError, match=f'{path}: no such file'):
        config_file.load(path)


def test_a_file_of_another_kind_has_another_function(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text('def get_number(text="1"):\n    return int(text)')
    assert config_file.call(str(path), 'get_number', returns=int) == 1
    assert config_file.call(f'{path}:7', 'get_number', returns=int) == 7
    with pytest.raises(
        InputError, match=r'get_number\(\) must return a str, not a int'
    ):
        config_file.call(str(path), 'get_number', returns=str)
    with pytest.raises(InputError, match=r'it defines no get_config\(\)'):
        config_file.load(str(path))


def test_an_override_changes_one_key_and_leaves_other_arguments_alone():
    config = maze_tiny.get_config()
    arguments = ['--config.advantage.k=8', '--other=1']
    values = config_file.override_flags(config, arguments)
    assert values(['program', *arguments], known_only=True) == ['program', '--other=1']
    expected = maze_tiny.get_config()
    expected.advantage.k = 8
    assert config == expected
    assert 'config.advantage.k' not in flags.FLAGS


def test_a_whole_section_may_be_overridden():
    config = maze_tiny.get_config()
    arguments = ["--config.task={'name': 'other', 'params': {}}"]
    config_file.override_flags(config, arguments)(['program', *arguments])
    assert config.task.to_dict() == {'name': 'other', 'params': {}}


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        (["('a.jsonl',)", "('b.jsonl',)"], ('b.jsonl',)),
        (["('a', 'b')", "('c',)", "['d', 'e']"], ('d', 'e')),
        (['a.jsonl', 'b.jsonl'], ('b.jsonl',)),
        (["('a.jsonl',)", '()'], ()),
        (["('a.jsonl', 'b.jsonl')"], ('a.jsonl', 'b.jsonl')),
    ],
)
@pytest.mark.parametrize('joined', [True, False])
def test_a_list_that_is_given_twice_is_replaced(values, expected, joined):
    config = math.get_config('model=llama32_3b')
    name = '--config.task.params.train_files'
    pairs = [[f'{name}={v}'] if joined else [name, v] for v in values]
    arguments = [argument for pair in pairs for argument in pair]
    config_file.override_flags(config, arguments)(['program', *arguments])
    assert config.task.params.train_files == expected


def test_the_switches_of_a_chat_template_are_one_flag():
    config = maze_tiny.get_config()
    arguments = ["--config.data.chat_template_kwargs={'enable_thinking': False}"]
    config_file.override_flags(config, arguments)(['program', *arguments])
    data = configs.from_config_dict(config).data
    assert data.chat_template_kwargs == {'enable_thinking': False}


def test_a_parameter_of_an_own_estimator_needs_a_config_file():
    config, flag = maze_tiny.get_config(), '--config.advantage.sharp=3.5'
    words = (
        r'unknown key advantage.sharp; .*\? Only a config file can add a parameter of '
    )
    name = '--config.advantage.name=est.py:f'
    with pytest.raises(InputError, match=f'^{flag}: {words}est.py:f: with config.unl'):
        config_file.override_flags(config, [flag, name])
    config.advantage.name = 'own.py:f'
    with pytest.raises(InputError, match=f'{words}own.py:f: with config.unlocked'):
        config_file.override_flags(config, [flag])
    with pytest.raises(InputError, match=r'did you mean advantage\.k'):
        config_file.override_flags(config, [flag, '--config.advantage.name=rloo'])
    with config.unlocked():
        config.advantage.sharp = 2.0
    config_file.override_flags(config, [flag])(['program', flag])
    assert config.advantage.sharp == 3.5


@pytest.mark.parametrize(
    ('argument', 'words'),
    [
        ('--config.advantge.k=8', 'did you mean advantage.k'),
        ('-config.advantage.kk=8', 'did you mean advantage.k'),
        ('--noconfig.log.tensorbord', 'did you mean log.tensorboard?'),
        ('--config.task.params.train_size=(3,)', 'did you mean task.params.train_si'),
        ('--config.k', 'did you mean advantage.k'),
        ('--config.zzz=1', "have ['advantage', 'checkpoint', 'data'"),
        ('--config.model.zzz=1', "'model.arch', 'model.attention'"),
        ('--config.stages.x.start=5', 'stages has no keys here'),
        ('--config.nowhere.at.all=5', "have ['advantage', 'checkpoint', 'data'"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest(argument, words):
    with pytest.raises(InputError) as error:
        config_file.override_flags(maze_tiny.get_config(), [argument])
    assert str(error.value).startswith(f'{argument}: unknown key ')
    assert words in str(error.value)


@pytest.mark.parametrize(
    'lines',
    [
        'c.a = ConfigDict(); c.a.b = c',
        'c.a = [1]; c.a.append(c.a)',
        'c.a = {}; c.b = (c.a,); c.a["x"] = c.b',
        'c.a = ()\n    for _ in range(100_000): c.a = (c.a,)',
        'a = (1,)\n    for _ in range(60): a = (a, a)\n    c.a = a',
        'c.a = ConfigDict(); c.a.b = ConfigDict(); c.a.b.c = c.a',
    ],
)
def test_a_configuration_that_contains_itself_is_one_line(lines, tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'from ml_collections import ConfigDict\n'
        f'def get_config():\n    c = ConfigDict()\n    {lines}\n    return c'
    )
    with pytest.raises(InputError) as error:
        config_file.load(str(path))
    message = str(error.value)
    assert message.startswith(f'{path}')
    assert '\n' not in message
    assert len(message) < 400


def test_a_path_may_have_colons(tmp_path):
    content = (
        'from ml_collections import ConfigDict\n'
        'def get_config(arg="none"):\n    return ConfigDict({"arg": arg})'
    )
    (tmp_path / '12:30').mkdir()
    path = tmp_path / '12:30' / 'mine.py'
    path.write_text(content)
    assert config_file.load(str(path)).arg == 'none'
    assert config_file.load(f'{path}:a:b').arg == 'a:b'
    path.with_name('mine.py:a').write_text(content.replace('none', 'whole'))
    assert config_file.load(f'{path}:a').arg == 'whole'
