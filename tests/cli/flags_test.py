"""The flags of a command, parsed without starting it."""

import importlib
import inspect
import re

import pytest
from absl import flags

from benchmarks.faults import campaign as faults
from configs import maze_tiny
from experiments import steepness
from passk_jax import compare, evaluate, export, score, train
from passk_jax import config as configs
from passk_jax.cli.flags import TABLE, parameters_of, parse
from passk_jax.errors import InputError
from tests import tiny


def commands_in(folder):
    return [
        importlib.import_module(
            '.'.join(path.relative_to(tiny.ROOT).with_suffix('').parts)
        )
        for path in sorted((tiny.ROOT / folder).rglob('*.py'))
        if 'cli.run(main)' in path.read_text()
    ]


COMMANDS = commands_in('passk_jax')
SCRIPTS = [*commands_in('experiments'), *commands_in('benchmarks')]
TINY = '--config=configs/maze_tiny.py'


def read(main, *arguments):
    """What ``main`` would get; no flag outlives the call."""
    return parse(main, ['command', *arguments], flags.FlagValues())


def refusal(main, *arguments):
    with pytest.raises((InputError, flags.Error)) as error:
        read(main, *arguments)
    return str(error.value)


def test_a_command_gets_the_flags_that_its_main_names():
    assert read(evaluate.main, '--workdir=runs/x', '--step=3', '--top_p=0.5') == {
        'workdir': 'runs/x',
        'model': None,
        'split': 'test',
        'task': None,
        'data_dir': None,
        'step': 3,
        'num_responses': None,
        'num_problems': None,
        'max_response_tokens': None,
        'overwrite': False,
        'temperature': None,
        'top_p': 0.5,
        'top_k': None,
        'min_p': None,
        'mesh': None,
        'hosts': '',
    }


BUCKETS = ('gs://b/a', 's3://b/a', 'file:///tmp/a')


@pytest.mark.parametrize('command', COMMANDS, ids=lambda module: module.__name__)
def test_every_command_refuses_a_bucket_wherever_a_path_may_stand(command):
    by_name = {
        name: TINY if name == 'config' else f'--{name}=a'
        for name, default in parameters_of(command.main).items()
        if default is inspect.Parameter.empty
    }
    texts = [name for name in parameters_of(command.main) if takes_text(name)]
    for name in texts:
        for bucket in BUCKETS:
            other_flags = [flag for key, flag in by_name.items() if key != name]
            message = refusal(command.main, *other_flags, f'--{name}={bucket}', 'run')
            assert f'{bucket}' in message
            assert 'must be a path of this machine' in message
    assert texts


def takes_text(name):
    """Whether a flag of this name takes any text."""
    try:
        return TABLE[name][0].parse('x') == 'x'
    except ValueError:
        return False


@pytest.mark.parametrize(
    'runs', [['gs://b/a', 'c'], ['c', 'x=s3://b/a'], ['c', 'x=d,gs://b/a']]
)
def test_a_run_to_compare_is_in_no_bucket(runs):
    assert 'must be a path of this machine' in refusal(compare.main, *runs)


@pytest.mark.parametrize(
    'key',
    [
        *('data.dir', 'model.source', 'model.tokenizer', 'init.checkpoint', 'name'),
        *('task.name', 'advantage.name'),
    ],
)
def test_a_bucket_is_no_path_of_the_config(key):
    message = refusal(train.main, TINY, f'--config.{key}=gs://b/a')
    assert message.startswith(f"{key}='gs://b/a' must be a path of this machine")


def test_the_config_is_checked_and_overridden():
    default = configs.from_config_dict(maze_tiny.get_config())
    assert read(train.main, TINY)['config'] == default
    parsed = read(
        train.main,
        '--config.loss.mask_truncated',
        *('--config.advantage.k', '8', TINY, '--workdir=w', '--config.mesh.data', '-1'),
        '--config.mesh.fsdp=1',
        '--config.task.params.test_counts=(7,)',
    )
    assert parsed['workdir'] == 'w'
    before = configs.flatten(configs.to_dict(default))
    values = configs.flatten(configs.to_dict(parsed['config']))
    changed = {key: value for key, value in values.items() if value != before[key]}
    assert changed == {
        'advantage.k': 8,
        'loss.mask_truncated': True,
        'mesh.data': -1,
        'mesh.fsdp': 1,
        'task.params.test_counts': (7,),
    }
    off = read(train.main, TINY, '--noconfig.log.tensorboard')['config']
    assert not off.log.tensorboard


def test_flags_and_overrides_may_come_from_a_file(tmp_path):
    (tmp_path / 'flags').write_text(f'{TINY}\n--config.seed=7\n')
    parsed = read(train.main, f'--flagfile={tmp_path / "flags"}', '--workdir=w')
    assert parsed['config'].seed == 7
    assert parsed['workdir'] == 'w'


@pytest.mark.parametrize('command', COMMANDS)
def test_the_example_of_a_command_has_all_that_it_requires(command, monkeypatch):
    text = command.__doc__.replace('\\\n', '')
    examples = re.findall(r'^    python -m (\S+) (.*)$', text, re.MULTILINE)
    monkeypatch.chdir(tiny.ROOT)
    for name, arguments in examples:
        assert command.__name__ in (name, f'{name}.__main__')
        assert read(command.main, *arguments.split())
    if inspect.Parameter.empty not in parameters_of(command.main).values():
        return
    message = refusal(command.main).replace('\\\n', '')
    name, arguments = examples[0]
    assert message.endswith(f'required, for example:\n    python -m {name} {arguments}')


def test_arguments_without_a_flag_are_for_the_command_that_takes_them():
    got = read(compare.main, 'runs/a', '--split=train', 'x=runs/b,runs/c')
    assert got['runs'] == ['runs/a', 'x=runs/b,runs/c']
    assert got['split'] == 'train'
    assert refusal(compare.main, 'a', '--splt=x').endswith('did you mean --split?')
    assert refusal(evaluate.main, '--workdir=w', 'a').startswith('arguments not unders')


def test_every_flag_of_the_table_is_some_commands():
    assert {train, evaluate, score} < set(COMMANDS)
    assert {faults, steepness} < set(SCRIPTS)
    parameters = [parameters_of(command.main) for command in (*COMMANDS, *SCRIPTS)]
    assert set().union(*parameters) == TABLE.keys()


def test_a_config_that_is_no_experiment_is_left_to_the_command():
    def main(*, config: str, seeds: str = ''):
        """Reads its own file."""

    assert read(main, '--config=x.py') == {'config': 'x.py', 'seeds': ''}
    assert 'unknown flag --config.seed=1' in refusal(main, TINY, '--config.seed=1')


def test_what_is_required_is_named():
    assert refusal(score.main, '--input=i').startswith('--task, --output are required')
    # An empty value is one that a shell's unset variable gave.
    empty = refusal(export.main, '--workdir=', '--out=o')
    assert empty.startswith('--workdir is required')
    # Neither an override nor an argument without a flag hides it.
    assert refusal(train.main, '--config.seed=1').startswith('--config is required')
    assert refusal(train.main, 'configs/maze_tiny.py').startswith('--config is req')


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--confg=x'], 'unknown flag --confg=x; did you mean --config?'),
        ([TINY, '--stepz'], 'unknown flag --stepz; see --help'),
        (
            [TINY, '--advantage.k=8'],
            'unknown flag --advantage.k=8; did you mean --config.advantage.k?',
        ),
        ([TINY, '--seed=8'], 'did you mean --config.seed or --config.task'),
        ([TINY, '--config.advantge.k=8'], 'did you mean advantage.k'),
        ([TINY, '--config.advantage.kk=8'], 'did you mean advantage.k'),
        ([TINY, '--config.advantage.k[0]=8'], 'unknown key advantage.k[0]'),
        (
            [TINY, '--config.train.steps=many'],
            '--config.train.steps=many must be of type int',
        ),
        (
            [TINY, '--config.optimizer.learning_rate=fast'],
            '--config.optimizer.learning_rate=fast must be of type float',
        ),
        (
            [TINY, '--config.log.tensorboard=maybe'],
            '--config.log.tensorboard=maybe must be of type bool',
        ),
        ([TINY, '--config.advantage=3'], "--config.advantage=3: Failed to parse '3'"),
        (
            [TINY, '--config.advantage.k=8', "--config.advantage={'k':3}"],
            '--config.advantage is provided after --config.advantage.k',
        ),
        ([TINY, '--noconfig.log.tensorboard=1'], 'does not take an argument'),
        (['--config'], 'Missing value for flag --config'),
        ([TINY, '--config.log.tensorboard', 'false'], "not understood: ['false']"),
    ],
)
def test_what_is_not_understood_is_named(arguments, words):
    assert words in refusal(train.main, *arguments)


def test_an_optional_flag_that_is_empty_is_refused():
    """A shell's unset variable would have it write to the default's place."""
    message = '--workdir= is empty; leave it out for its default'
    assert refusal(train.main, TINY, '--workdir=') == message
    assert refusal(evaluate.main, '--workdir=w', '--split=').startswith('--split= is')
    assert read(train.main, TINY, '--hosts=')['hosts'] == ''
    assert read(train.main, TINY)['workdir'] is None


@pytest.mark.parametrize('command', COMMANDS)
def test_a_tilde_is_the_home_directory_in_every_path(command, monkeypatch):
    monkeypatch.setenv('HOME', str(tiny.ROOT))
    paths = {'workdir', 'out', 'input', 'output', 'markdown', 'figure', 'data_dir'}
    paths.add('exported')
    required = {'task': 'maze', 'topology': 'cpu:8', 'config': '~/configs/maze_tiny.py'}
    required['repo'] = 'me/x'
    names = parameters_of(command.main)
    by_name = {k: v for k, v in required.items() if k in names}
    by_name |= dict.fromkeys(paths & names.keys(), '~/x')
    arguments = [f'--{name}={value}' for name, value in by_name.items()]
    if command is compare:
        arguments.append('runs/x')
    got = read(command.main, *arguments)
    assert {got[name] for name in paths & names.keys()} == {f'{tiny.ROOT}/x'}


def test_a_hyphen_in_a_flag_is_an_underscore():
    parsed = read(evaluate.main, '--workdir=a-b', '--num-responses=3')
    assert (parsed['workdir'], parsed['num_responses']) == ('a-b', 3)
    assert refusal(evaluate.main, '--workdir=w', '--num-response=3').endswith(
        'did you mean --num_responses?'
    )


def test_a_flag_that_is_on_or_off_needs_no_value():
    for arguments, value in (
        ([], False),
        (['--accept_loss'], True),
        (['--noaccept_loss'], False),
    ):
        assert read(train.main, TINY, *arguments)['accept_loss'] is value


def test_a_value_of_another_type_is_named():
    assert refusal(evaluate.main, '--workdir=w', '--step=x') == (
        '--step=x must be of type int'
    )


def test_an_override_of_a_command_without_a_config_is_an_unknown_flag():
    message = refusal(evaluate.main, '--workdir=w', '--config.seed=1')
    assert message == 'unknown flag --config.seed=1; see --help'


def test_the_program_keeps_no_flag_of_a_command():
    assert not {'workdir', 'config', 'hosts'} & set(flags.FLAGS)


def test_a_published_model_needs_one_flag_in_the_place_of_a_small_one():
    maze_tiny = '--config=configs/maze_tiny.py'
    config = read(train.main, maze_tiny, '--config.model.source=some/model')['config']
    assert (config.model.source, config.model.tokenizer) == ('some/model', 'source')
    assert (config.model.family, config.model.arch.embed_dim) == ('', 0)
    assert config.task.params['prompt'] == 'instruct'
    assert config.init.warm_start.optimizer.learning_rate == 5e-5
    # Other flags still have the last word, wherever they stand.
    flags = ('--config.train.steps=7', '--config.model.source', 'm', maze_tiny)
    config = read(train.main, *flags)['config']
    assert (config.train.steps, config.model.source) == (7, 'm')
    # So do other spellings of the flag.
    config = read(train.main, maze_tiny, '-config.model.source', 'm')['config']
    assert (config.model.source, config.task.params['prompt']) == ('m', 'instruct')
    # A file that says nothing of it gives up what only its own network has.
    tests = f'--config={tiny.ROOT}/tests/tiny.py'
    config = read(train.main, tests, '--config.model.source=m')['config']
    assert (config.model.tokenizer, config.model.arch.num_layers) == ('source', 0)
    assert config.task.params['prompt'] == 'bare'
