"""Your own problems: a task, or records with a reward function (docs/plugins.md).

Your own task, ``my_puzzle.py:MyTask``, whose ``Params`` have no fields:

    passk train --config=custom:task=my_puzzle.py:MyTask

Records of a file, with a reward function:

    passk train --config=custom:train=problems.jsonl,reward=my_reward.py:reward

``test=…`` names a file to evaluate on; without one there is no evaluation.

``size=tiny``, the default, is the policy of configs/maze_tiny.py without warm start. It
knows nothing; use it for prompts of up to 64 ASCII characters and rewards that some
random answers earn. ``size=paper`` is the paper's policy, Qwen2.5-7B-Instruct, with its
settings (configs/base.py).

Time: that of configs/maze_tiny.py, or of configs/maze.py.
"""

from ml_collections import ConfigDict

from configs import arguments, base, maze_tiny

_DEFAULTS = {
    'task': 'records',
    'train': 'problems.jsonl',
    'test': '',
    'reward': 'my_reward.py:reward',
}


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    choices = {'size': ('tiny', 'paper')}
    values = arguments.parse(
        argument, defaults={**_DEFAULTS, 'size': 'tiny'}, choices=choices
    )
    config = _tiny() if values['size'] == 'tiny' else base.get_config()
    config.name = 'custom'
    config.task.name = values['task']
    config.task.params = _records(values) if values['task'] == 'records' else {}
    is_evaluated = values['test'] or values['task'] != 'records'
    config.eval.split, config.eval.final_split = 'test', 'test'
    if not is_evaluated:
        config.eval.every, config.eval.final_split = 0, ''
    return config


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


def _tiny() -> ConfigDict:
    """The policy of configs/maze_tiny.py from random weights."""
    config = maze_tiny.get_config()
    config.init.kind = 'scratch'
    config.data.max_prompt_tokens = 64
    config.sampling.max_response_tokens = 16
    # The 95 ASCII characters are many for a policy that knows none of them.
    config.optimizer.learning_rate = 1e-3
    return config
