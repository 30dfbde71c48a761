"""The paper's policy of pictures at the size of a laptop: what Pass@k Training adds.

    python -m passk_jax.sweep --config=experiments/sweeps/visual.py:task=counting
    python -m passk_jax.sweep --config=experiments/sweeps/visual.py:task=maze

The rows of the paper's table ``tab:main_seedvl``, on configs/visual_counting.py and
configs/visual_maze.py with experts: no training (Baseline), Pass@1 Training, Pass@k
Training, half of the steps by each, and Pass@k Training on black pictures, which shows
what is right without sight. A seed decides the warm start, the batches and the draws of
every arm.

Expected, written before the first run of the sweep; one seed of counting had been seen,
to choose the rate and the steps:

1. Pass@1 and Pass@k Training both end above the Baseline in Pass@1, by at least .05.
2. In mazes, Pass@k Training ends above Pass@1 Training in Pass@32, and below it in
   Pass@1, as on the text mazes of passk_vs_pass1.py. Counting has six answers, which
   leaves no room there: Pass@32 differs by less than .02.
3. Half of the steps by each ends at least at the Pass@1 of Pass@1 Training in mazes,
   and within .02 of it in counting.
4. Blind, it counts right no more often than one in six times, within .02; in mazes it
   ends below half of the Pass@1 of the Baseline.
"""

from configs import arguments
from passk_jax.sweeps import MEASURES, Arm, Stage, Sweep

_STEPS = {'counting': 300, 'maze': 300}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep on ``task=counting`` or ``task=maze``."""
    task = arguments.parse(argument, choices={'task': _STEPS})['task']
    config, steps = f'configs/visual_{task}.py:experts=8', _STEPS[task]
    pass_at_1 = {'advantage.name': 'pass_at_1'}
    pass_at_k = {'advantage.name': 'pass_at_k', 'train.steps': steps}
    # The least step, at a rate that changes nothing.
    standing_still = {'train.steps': 1, 'optimizer.learning_rate': 1e-30}
    half = {'train.steps': steps // 2}
    return Sweep(
        name=f'visual_{task}',
        title=f'visual {task}',
        arms=(
            Arm('baseline', 'Baseline', config, standing_still),
            Arm('pass_at_1', 'Pass@1 Training', config, pass_at_k | pass_at_1),
            Arm('pass_at_k', 'Pass@4 Training', config, pass_at_k),
            Arm(
                'both',
                'Pass@4, then Pass@1 Training',
                config,
                pass_at_k | half,
                (Stage('pass_at_1', pass_at_1 | half),),
            ),
            Arm('blind', 'Pass@4 Training, blind', f'{config},sight=blind', pass_at_k),
        ),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures=MEASURES,
        split='test',
        curves='validation',
        contrasts=(('pass_at_k', 'baseline'), ('both', 'pass_at_k')),
    )
