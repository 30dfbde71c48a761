"""Pass@k Training, then Pass@1 Training: does the gain carry over, and when?

    python -m passk_jax.sweep --config=experiments/sweeps/transfer.py:difficulty=hard

The paper's main claim (section ``sec:passk_to_pass1``), at equal steps and with fresh
problems in each stage, on the mazes of configs/maze_tiny.py at three difficulties:

* ``easy``: shortest paths of 1 to 4 moves;
* ``medium``: those of configs/maze_tiny.py, 3 to 10 moves;
* ``hard``: 5 to 10 moves.

A seed decides the warm start, the batches and the draws of every arm.

Expected, written before the first run and judged in experiments/pages/transfer.md:
Pass@1 after both stages is at least that of Pass@1 Training alone where problems are
hard, and equal where they are easy; Pass@32 is higher at every difficulty.
"""

from configs import arguments
from passk_jax.sweeps import MEASURES, Arm, Sweep

_PATHS = {'easy': (1, 4), 'medium': (3, 10), 'hard': (5, 10)}
_TWO_STAGES = 'configs/ablations/pass_at_k_then_pass_at_1.py'


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep at ``difficulty=easy``, ``medium`` or ``hard``."""
    values = arguments.parse(argument, choices={'difficulty': _PATHS})
    difficulty = values['difficulty']
    min_path, max_path = _PATHS[difficulty]
    mazes = {'task.params.min_path': min_path, 'task.params.max_path': max_path}
    return Sweep(
        name=f'transfer_{difficulty}',
        title=f'5x5 mazes, paths of {min_path} to {max_path} moves',
        arms=(
            _arm('pass_at_1', 'Pass@1 Training', 'configs/maze_tiny.py', mazes),
            _arm('pass_at_k', 'Pass@4 Training', 'configs/maze_tiny.py', mazes),
            _arm(
                'once',
                'Pass@4, then Pass@1 Training',
                f'{_TWO_STAGES}:size=tiny',
                mazes,
            ),
            _arm('twice', 'both, twice', f'{_TWO_STAGES}:times=2,size=tiny', mazes),
        ),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures=MEASURES,
        split='test',
        curves='validation',
    )


def _arm(name: str, label: str, config: str, mazes: dict[str, int]) -> Arm:
    """Makes an arm; the name of an arm with a single stage is its estimator."""
    single = {} if 'ablations' in config else {'advantage.name': name}
    return Arm(name, label, config, {**single, **mazes})
