"""Pass@1 Training that has levelled off, with Pass@k Training in its middle.

    python -m passk_jax.sweep --config=experiments/sweeps/overview.py

The paper's first figure (``fig:overview``) at the size of a laptop: 600 steps of Pass@1
Training beside 200 of Pass@1, 200 of Pass@4 and 200 of Pass@1 Training, on the mazes of
configs/maze_tiny.py. Both arms are the same run until step 200. A seed decides the warm
start, the batches and the draws of every arm.

Expected, written before the first run and judged in experiments/pages/overview.md: in
the last part Pass@1 rises again, above where the first one left it, and ends at least
where Pass@1 Training alone does; Pass@32 ends higher.
"""

from passk_jax.sweeps import MEASURES, Arm, Sweep

_STEPS, _FIRST = 600, 200


def get_sweep() -> Sweep:
    """Returns the sweep."""
    steps = {'train.steps': _STEPS}
    starts = {
        'stages.pass_at_k.start': _FIRST,
        'stages.pass_at_1.start': 2 * _FIRST,
    }
    parts = f'configs/ablations/overview.py:first={_FIRST},size=tiny'
    return Sweep(
        name='overview',
        title='5x5 mazes, 600 steps',
        arms=(
            Arm(
                'pass_at_1',
                'Pass@1 Training',
                'configs/ablations/pass_at_1.py:size=tiny',
                steps,
            ),
            Arm('parts', 'Pass@1, Pass@4, Pass@1 Training', parts, steps | starts),
        ),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures=MEASURES,
        split='test',
        curves='validation',
    )
