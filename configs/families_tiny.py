"""Pass@k Training on fifteen families of puzzles on two CPU cores.

Paper: Pass@k Training, section ``sec:passk_to_pass1`` (Enigmata), at the size of a
laptop, with more kinds of problem: eight puzzles of Enigmata and seven sets of
reasoning-gym. In each of them one answer, whatever it is, is right for at most a tenth
of the problems. In configs/puzzles_tiny.py "cannot form 24" is right for more.

The sets of reasoning-gym need ``pip install '.[reasoning-gym]'``. Then:

    python -m passk_jax.train --config=configs/families_tiny.py \\
        --workdir=runs/families_tiny

Pass@1 Training, for comparison, in its own workdir:

    python -m passk_jax.train --config=configs/families_tiny.py \\
        --config.advantage.name=pass_at_1 --workdir=runs/families_tiny_pass_at_1

Time: a quarter of an hour of a core. Result: see experiments/README.md.
"""

from ml_collections import ConfigDict

from configs import puzzles_tiny

PUZZLES = (
    *('sudoku2', 'binario', 'hitori', 'tic_tac_toe', 'star_battle', 'campsite'),
    *('car_painting', 'sixteen_puzzle'),
)
# Name of a set -> its smaller problems; the defaults are too hard for this policy.
SETS = {
    'basic_arithmetic': {
        'min_terms': 2,
        'max_terms': 3,
        'min_digits': 1,
        'max_digits': 2,
    },
    'chain_sum': {'min_terms': 2, 'max_terms': 3, 'min_digits': 1, 'max_digits': 2},
    'count_primes': {'min_n': 1, 'max_n': 400},
    'products': {'min_terms': 2, 'max_terms': 2, 'min_digits': 1, 'max_digits': 2},
}
# Sets with few problems of that size.
SMALL_SETS = {
    'lcm': {'min_numbers': 2, 'max_numbers': 2, 'min_value': 1, 'max_value': 40},
    'simple_equations': {'min_value': 1, 'max_value': 50},
    'spell_backward': {'min_word_len': 3, 'max_word_len': 4},
}
# The categories of results: the part of the mixture, and the puzzle or set.
FAMILIES = (
    *(f'enigmata/{name}' for name in PUZZLES),
    *(f'gym/{name}' for name in SETS),
    *(f'small_gym/{name}' for name in SMALL_SETS),
)


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = puzzles_tiny.get_config()
    config.name = 'families_tiny'
    counts = {'validation_count': 16, 'test_count': 64, 'seed': 0}
    puzzles = {'puzzles': PUZZLES, 'levels': ('easy',), 'prompt': 'bare'}
    config.task.name = 'mixture'
    config.task.params = ConfigDict(
        {
            'parts': {
                'enigmata': {
                    'weight': len(PUZZLES),
                    'task': 'enigmata',
                    'params': {**puzzles, 'train_count': 2_000, **counts},
                },
                'gym': {
                    'weight': len(SETS),
                    'task': 'reasoning_gym',
                    'params': {'sets': SETS, 'train_count': 1_000, **counts},
                },
                'small_gym': {
                    'weight': len(SMALL_SETS),
                    'task': 'reasoning_gym',
                    'params': {'sets': SMALL_SETS, 'train_count': 300, **counts},
                },
            }
        }
    )
    # A question alone, as in the bare prompts of Enigmata.
    config.data.instruction = ''
    config.data.max_prompt_tokens = 124
    config.sampling.max_response_tokens = 80
    config.train.steps = 150
    config.train.pack_sizes = 3
    config.init.warm_start.steps = 800
    config.init.warm_start.optimizer.learning_rate = 3e-3
    return config
