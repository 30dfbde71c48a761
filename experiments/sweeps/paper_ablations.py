"""The ablations of the paper at the size of a laptop, paired over seeds.

    python -m passk_jax.sweep --config=experiments/sweeps/paper_ablations.py

Every arm is a file of configs/ablations/ with ``size=tiny``, whose docstring has the
paper's item and what it expects. A seed decides the warm start, the batches and the
draws of every arm.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

# File, its arguments, and what the tables call it.
_ARMS = (
    ('pass_at_1', '', 'Pass@1 Training'),
    ('analytical', 'k=4', 'Pass@4 Training'),
    ('analytical', 'k=8', 'Pass@8 Training'),
    ('learning_rate', 'multiple=2', 'Pass@8 Training, rate x 2'),
    ('learning_rate', 'multiple=4', 'Pass@8 Training, rate x 4'),
    ('full_sampling', '', 'full sampling'),
    ('bootstrap_sampling', 'aggregation=sum', 'bootstrap, sum'),
    ('bootstrap_sampling', 'aggregation=mean', 'bootstrap, mean'),
    ('without_easy', '', 'without easy'),
    ('piecewise', '', 'piecewise'),
    ('exceeding', '', 'exceeding'),
    ('combination', '', 'combination'),
    ('adaptive', '', 'adaptive'),
    ('noise_rewards', 'fraction=0.1', 'noise, 10 %'),
    ('noise_rewards', 'fraction=0.3', 'noise, 30 %'),
    ('noise_rewards', 'fraction=0.5', 'noise, 50 %'),
    ('entropy_bonus', 'coef=0.001', 'entropy bonus .001'),
    ('entropy_bonus', 'coef=0.003', 'entropy bonus .003'),
    ('entropy_bonus', 'coef=0.005', 'entropy bonus .005'),
)

# Pairs that those files compare, besides each arm with Pass@1 Training.
_CONTRASTS = (
    ('analytical_4', 'bootstrap_sampling_sum'),
    ('analytical_4', 'bootstrap_sampling_mean'),
    ('bootstrap_sampling_sum', 'full_sampling'),
    ('analytical_8', 'analytical_4'),
    ('learning_rate_2', 'analytical_8'),
    ('learning_rate_4', 'analytical_8'),
    *(
        (arm, 'analytical_4')
        for arm in (
            *('without_easy', 'piecewise', 'exceeding', 'combination', 'adaptive'),
            *('noise_rewards_0.1', 'noise_rewards_0.3', 'noise_rewards_0.5'),
            *('entropy_bonus_0.001', 'entropy_bonus_0.003', 'entropy_bonus_0.005'),
        )
    ),
)


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='paper_ablations',
        title='5x5 mazes',
        arms=tuple(_arm(*arm) for arm in _ARMS),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
        contrasts=_CONTRASTS,
    )


def _arm(file: str, argument: str, label: str) -> Arm:
    """Makes the arm of a file with its arguments."""
    name = '_'.join([file, *argument.split('=')[1:]])
    options = ','.join(filter(None, [argument, 'size=tiny']))
    return Arm(name, label, f'configs/ablations/{file}.py:{options}')
