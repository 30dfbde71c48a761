"""Your own problems: a task, or records with a reward function (docs/plugins.md).

Your own task, ``my_puzzle.py:MyTask``, whose ``Params`` have defaults or no fields:

    passk train --config=custom:task=my_puzzle.py:MyTask --config.task.params.size=5

Records of a file, with a reward function:

    passk train --config=custom:train=problems.jsonl,reward=my_reward.py:reward

``test=…`` names a file to evaluate on; without one there is no evaluation.

``size=tiny``, the default, is the policy of configs/maze_tiny.py without warm start. It
knows nothing; use it for prompts of up to 64 ASCII characters and rewards that some
random answers earn. ``size=small`` is a small language model with settings for one GPU:

    passk train --config=custom:train=a.jsonl,reward=my_reward.py:reward,size=small

``size=paper`` is the paper's policy, Qwen2.5-7B-Instruct, with its settings
(configs/base.py). ``source=…`` names another model of either size: a directory or a
name of the hub.

Time: ``tiny`` takes that of configs/maze_tiny.py, ``small`` minutes to hours of a GPU,
and ``paper`` that of configs/maze.py.
"""

from ml_collections import ConfigDict

from configs import arguments, base, maze_tiny
from passk_jax import plugins
from passk_jax.errors import InputError
from passk_jax.tasks import task_class
from passk_jax.tasks.task import add_defaults

_DEFAULTS = {
    'task': 'records',
    'train': 'problems.jsonl',
    'test': '',
    'reward': 'my_reward.py:reward',
    'source': '',
}
_OF_RECORDS = 'train', 'test', 'reward'
SMALL = 'Qwen/Qwen2.5-0.5B-Instruct'


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    sizes = {'tiny': _tiny, 'small': _small, 'paper': base.get_config}
    values = arguments.parse(
        argument,
        defaults={**_DEFAULTS, 'size': 'tiny'},
        choices={'size': tuple(sizes)},
    )
    keys = [key for key in _OF_RECORDS if values[key] != _DEFAULTS[key]]
    if keys and values['task'] != 'records':
        raise InputError(
            f'{keys} are of records with a reward function, and task={values["task"]} '
            'has its own problems: leave out one of the two'
        )
    config = sizes[values['size']]()
    if values['source']:
        if values['size'] == 'tiny':
            raise InputError(
                f'source={values["source"]} is a model, and size=tiny has its own '
                'policy: add size=small or size=paper'
            )
        config.model.source = values['source']
    config.name = 'custom'
    config.task.name = values['task']
    config.task.params = _params(values)
    is_evaluated = values['test'] or values['task'] != 'records'
    config.eval.split, config.eval.final_split = 'test', 'test'
    if not is_evaluated:
        config.eval.every, config.eval.final_split = 0, ''
    return config


def _params(values: dict[str, str]) -> ConfigDict:
    if values['task'] == 'records':
        return _records(values)
    if not plugins.is_place(values['task']):
        return ConfigDict()
    try:
        defaults = add_defaults(task_class(values['task']), {})
    except InputError:
        # The command itself says so, without the name of this file.
        return ConfigDict()
    # Of other types, no flag can set a value.
    kinds = bool | int | float | str | tuple
    return ConfigDict({k: x for k, x in defaults.items() if isinstance(x, kinds)})


def _records(values: dict[str, str]) -> ConfigDict:
    return ConfigDict(
        {
            'train_files': (values['train'],),
            'validation_files': (),
            'test_files': (values['test'],) if values['test'] else (),
            # A text, or the turns of a chat.
            'prompt_field': 'prompt',
            'reward': values['reward'],
            # The least reward that makes a response correct, if rewards are numbers.
            'threshold': 1.0,
            'deadline_s': 5.0,
            'memory_mib': 4096,
        }
    )


def _small() -> ConfigDict:
    """Returns a small language model with batches and lengths for one GPU."""
    config = base.get_config()
    config.model.source = SMALL
    config.model.remat = 'attention'
    config.data.max_prompt_tokens = 512
    config.sampling.num_rollouts = 16
    config.sampling.max_response_tokens = 512
    config.train.steps = 200
    config.train.num_prompts = config.train.mini_batch_prompts = 16
    # About 9,000 tokens a pass.
    config.train.micro_batch_prompts = 1
    config.checkpoint.every = 50
    return config


def _tiny() -> ConfigDict:
    """Returns the policy of configs/maze_tiny.py with random weights."""
    config = maze_tiny.get_config()
    config.init.kind = 'scratch'
    config.data.max_prompt_tokens = 64
    config.sampling.max_response_tokens = 16
    # The 95 ASCII characters are many for a policy that knows none of them.
    config.optimizer.learning_rate = 1e-3
    return config
