"""The settings of the learner: its loss and its optimizer."""

from passk_jax.config.ranges import (
    count,
    decay,
    not_negative,
    one_of,
    positive,
    ranged,
    section,
)

AGGREGATIONS = ('token', 'sequence')
KL_ESTIMATORS = ('k1', 'k2', 'k3')


@section
class LossConfig:
    """The policy-gradient loss.

    Attributes:
        clip_low: epsilon_low; the ratio is clipped below at ``1 - clip_low``.
        clip_high: epsilon_high; the ratio is clipped above at ``1 + clip_high``.
        aggregation: ``'token'`` (DAPO) or ``'sequence'`` (GRPO) mean.
        entropy_coef: weight of the entropy bonus.
        kl_coef: weight of the KL to the initial policy; with adapters, to their base.
        kl_estimator: ``'k1'``, ``'k2'`` or ``'k3'``; the metric ``ref_kl_<estimator>``
            is its value. As a loss, k1 has no gradient in expectation.
        mask_truncated: whether the loss ignores responses that the limit cut off.
        sampler_weight_cap: largest importance weight of a token, at least 1; 0: no
            weights. The weight is the learner's probability of the token divided by the
            sampler's. They differ by rounding and, with top-p or top-k, by the
            probability mass that these keep.
        router_aux_coef: weight of the auxiliary loss that balances the load of experts
            (``learning.expert_load.balance_loss``). Above 0, without
            ``model.replay_routing``, each update runs its batch once more.
    """

    clip_low: float = ranged('lie in (0, 1]', lambda x: 0 < x <= 1)
    clip_high: float = positive()
    aggregation: str = one_of(*AGGREGATIONS)
    entropy_coef: float = not_negative()
    kl_coef: float = not_negative()
    kl_estimator: str = one_of(*KL_ESTIMATORS)
    mask_truncated: bool
    sampler_weight_cap: float = ranged(
        # A cap below 1 would shrink correct weights.
        'be 0 (no weights) or at least 1',
        lambda x: x == 0 or x >= 1,
    )
    router_aux_coef: float = not_negative(off=0.0)


@section
class OptimizerConfig:
    """The optimizer, with a linear warm-up; ``max_grad_norm=0``: no clip.

    Attributes:
        name: ``'adamw'``, or ``'sgd'``: without momentum, so ``b1``, ``b2`` and ``eps``
            have no effect. AdamW removes the scale of the gradient, SGD does not.
        learning_rate: the rate at the end of the warm-up.
        warmup_updates: updates of the warm-up. A step makes ``train.epochs *
            train.num_prompts / train.mini_batch_prompts``.
        schedule: the rate after the warm-up: ``'constant'``, or a decay to 0 after the
            last update: ``'linear'``, or half a period of a ``'cosine'``.
    """

    name: str = one_of('adamw', 'sgd', off='adamw')
    learning_rate: float = positive()
    warmup_updates: int = count(0)
    schedule: str = one_of('constant', 'linear', 'cosine', off='constant')
    b1: float = decay()
    b2: float = decay()
    eps: float = positive()
    weight_decay: float = not_negative()
    max_grad_norm: float = not_negative()
