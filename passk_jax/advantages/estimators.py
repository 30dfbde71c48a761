"""From ``[P, N]`` rewards to ``[P, N]`` advantages: the estimators and their table.

In order: Pass@1 (GRPO), the two that sample groups, Pass@k of real-valued rewards,
adaptive, the way from a curve to an estimator, :data:`ESTIMATORS`, and
:func:`make_estimator`, which everything outside this package calls.

**Which channel is read.** ``correct`` is the verifier's boolean; ``rewards`` is what
the policy is paid, and may be -1/+1, shaped, or carry a format bonus. A Pass@k
advantage is about groups that contain a correct response, so every design with binary
group rewards reads ``correct`` and never looks at ``rewards``; the group reward of
full and bootstrap sampling (Eq. passk, the maximum reward) is 1 if any member is
correct. Two estimators read ``rewards`` and never ``correct``: ``pass_at_1``, which is
GRPO, and ``pass_at_k_real``. Both are unchanged by ``a * rewards + b``, a > 0, and
equal their curves when rewards are 0 and 1.

A problem whose groups all have one reward gets exactly 0, by integer counts and tests
of equality; no sigma is ever compared with 0, and none gets an epsilon.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from passk_jax.advantages import curves
from passk_jax.errors import InputError

AGGREGATIONS = ('sum', 'mean')

# (rewards [P, N], correct [P, N], *, key=None, mean_entropy=None) -> [P, N]
AdvantageFn = Callable[..., Float[Array, 'P N']]


def pass_at_1(rewards: Float[Array, 'P N']) -> Float[Array, 'P N']:
    """GRPO (Eq. grpo_adv): rewards less their mean, over their population sigma.

    A problem whose rewards are all equal gets 0. The rewards are first mapped to
    [0, 1], which changes nothing but the rounding: neither a large offset nor a
    tiny spread costs digits.

    Args:
        rewards: any finite values.

    Returns:
        The advantages; a NaN among the rewards gives NaN, never a silent 0.

    >>> pass_at_1(jnp.array([[1.0, 0.0], [0.7, 0.7]])).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """
    constant = jnp.all(rewards == rewards[:, :1], axis=-1, keepdims=True)
    unit = _to_unit_interval(rewards, constant)
    centred = unit - jnp.mean(unit, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    sigma = jnp.sqrt(jnp.where(constant, 1.0, variance))
    return jnp.where(constant, 0.0, centred / sigma)


def full_sampling(correct: Bool[Array, 'P N'], *, k: int) -> Float[Array, 'P N']:
    """Pass@k by full sampling (Algorithm code:full_sampling).

    Each k consecutive responses are a group; a group's advantage is GRPO's over the
    ``N // k`` group rewards and each member's. The ``N mod k`` redundant responses at
    the end are discarded: their advantage is 0. With a single group all are 0.

    Args:
        correct: whether each response is correct.
        k: group size.

    Returns:
        The advantages.
    """
    num_problems, num_rollouts = correct.shape
    num_groups = num_rollouts // k
    groups = correct[:, : num_groups * k].reshape(num_problems, num_groups, k)
    of_groups = _group_advantages(jnp.any(groups, axis=-1))
    of_members = jnp.repeat(of_groups, k, axis=-1)
    return jnp.pad(of_members, ((0, 0), (0, num_rollouts - num_groups * k)))


def bootstrap_sampling(
    correct: Bool[Array, 'P N'],
    *,
    key: jax.Array,
    k: int,
    num_groups: int = 0,
    aggregation: str = 'sum',
) -> Float[Array, 'P N']:
    """Pass@k by bootstrap sampling (Algorithm code:bootstrap_sampling).

        A_i = sum over groups j that contain i of A^j

    (Eq. bootstrap_sampling_group_to_response). A group is k distinct responses drawn
    without regard to the other groups; its advantage is GRPO's over all groups drawn.

    The printed sum is about ``num_groups * k / N`` times the analytical advantage,
    which averages: at the paper's ``num_groups = N`` a swap of the two is also a swap
    of the learning rate, by k. ``aggregation='mean'`` averages over the groups that
    contain the response and tends to ``pass_at_k`` as groups are added.

    Args:
        correct: whether each response is correct.
        key: one key for each problem, made from the problem's id, so that the groups
            do not depend on where in the batch a problem stands; or one key for all,
            folded with the row, when that does not matter. Consumed here.
        k: group size.
        num_groups: groups drawn for each problem; 0: as many as responses, as in the
            paper's runs.
        aggregation: ``'sum'`` as printed, or ``'mean'``. A response in no group gets
            0 either way.

    Returns:
        The advantages.
    """
    num_problems, num_rollouts = correct.shape
    num_groups = num_groups or num_rollouts
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    if key.ndim == 0:
        rows = jnp.arange(num_problems)
        key = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, rows)
    if key.shape != (num_problems,):
        raise InputError(f'{key.shape=} must be () or ({num_problems=},)')

    def draw_groups(problem_key: Key[Array, '']) -> Bool[Array, 'M N']:
        # The k largest of N random words are a uniform k-subset.
        words = jax.random.bits(problem_key, (num_groups, num_rollouts))
        _, members = jax.lax.top_k(words, k)
        group = jnp.arange(num_groups)[:, None]
        return jnp.zeros(words.shape, bool).at[group, members].set(True)

    member = jax.vmap(draw_groups)(key)
    of_groups = _group_advantages(jnp.any(member & correct[:, None, :], axis=-1))
    total = jnp.sum(jnp.where(member, of_groups[:, :, None], 0.0), axis=1)
    if aggregation == 'sum':
        return total
    return total / jnp.maximum(jnp.sum(member, axis=1), 1)


def pass_at_k_real(rewards: Float[Array, 'P N'], *, k: int) -> Float[Array, 'P N']:
    """The analytical Pass@k advantage of real-valued rewards.

    The reward of a group is its maximum (Eq. passk), over all C(N, k) groups; the
    advantage of a response is the mean normalised reward of the groups it is in. With
    the rewards sorted, gaps ``d_j = x_(j+1) - x_(j)`` and ``F_j = C(j, k) / C(N, k)``
    (the probability that a group's maximum is at most ``x_(j)``), the response of rank
    i has

        A_i = (sum_{j<i} d_j F_j  -  sum_{j>=i} d_j F_j (N - j) / j) / sigma
        sigma^2 = sum_j (F_j - F_(j-1)) (x_(j) - mean of the group maximum)^2

    so that no group is formed or sampled. Equal rewards get equal advantages, bit for
    bit. On two-valued rewards, whatever the values, this is ``pass_at_k``; at ``k = 1``
    it is ``pass_at_1``. All are 0 if fewer than k responses are below the maximum:
    then every group holds one that reaches it.

    The paper derives the two-valued case only (sec:passk_w_analytical_derivation);
    this is the same definition, with Eq. passk in place of counts.

    Args:
        rewards: any finite values.
        k: group size.

    Returns:
        The advantages; a NaN among the rewards gives NaN, never a silent 0.

    >>> round(float(pass_at_k_real(jnp.array([[0.3, 0.1, 0.1, 0.1]]), k=2)[0, 0]), 5)
    1.0
    """
    num_rollouts = rewards.shape[-1]
    inside, _ = curves.group_odds(num_rollouts=num_rollouts, k=k)
    ranks = np.arange(1, num_rollouts)
    at_most = jnp.asarray(inside[1:-1], jnp.float32)
    to_lose = jnp.asarray(inside[1:-1] * (num_rollouts / ranks - 1), jnp.float32)
    largest_is = jnp.asarray(np.diff(inside), jnp.float32)

    ordered = jnp.sort(rewards, axis=-1)
    # `~(a >= b)` and not `a < b`: a NaN counts as below, and so is not hidden.
    num_below = jnp.sum(~(ordered >= ordered[:, -1:]), axis=-1, keepdims=True)
    flat = num_below < k
    unit = _to_unit_interval(ordered, flat)
    gaps = jnp.diff(unit, axis=-1)
    gain = jnp.pad(jnp.cumsum(gaps * at_most, axis=-1), ((0, 0), (1, 0)))
    loss = jax.lax.cumsum(gaps * to_lose, axis=1, reverse=True)
    loss = jnp.pad(loss, ((0, 0), (0, 1)))
    # The mean of the group maximum lies gain[-1] below the highest reward.
    shortfall = unit[:, -1:] - unit - gain[:, -1:]
    variance = jnp.sum(largest_is * shortfall**2, axis=-1, keepdims=True)
    sigma = jnp.sqrt(jnp.where(flat, 1.0, variance))
    by_rank = jnp.where(flat, 0.0, (gain - loss) / sigma)

    # Every response takes the value of the last of its equals: undoes the sort and
    # makes ties exact in one gather.
    count_up_to = jax.vmap(functools.partial(jnp.searchsorted, side='right'))
    last_equal = count_up_to(ordered, rewards) - 1
    return jnp.take_along_axis(by_rank, last_equal, axis=-1)


def adaptive(
    correct: Bool[Array, 'P N'],
    *,
    mean_entropy: Float[Array, 'P'],
    k: int,
    high_entropy_fraction: float = 0.5,
) -> Float[Array, 'P N']:
    """Adaptive Training (sec:adaptive_training).

    Problems are ranked by the mean entropy of their responses; the top share,
    high-exploration problems, get the Pass@1 curve and the rest the Pass@k curve.

    The ranking is over the batch given, so call this on a whole step and not on
    micro-batches. Its share is rounded to whole problems, a half upwards; of equal
    entropies the earlier row is ranked higher. The paper does not say which batch is
    ranked, nor how it rounds.

    Args:
        correct: whether each response is correct.
        mean_entropy: nats, over the tokens of a problem's responses.
        k: group size of the low-exploration problems.
        high_entropy_fraction: share called high-exploration, in ``[0, 1]``; the
            paper's is one half.

    Returns:
        The advantages.
    """
    num_problems = correct.shape[0]
    num_high = math.floor(high_entropy_fraction * num_problems + 0.5)
    ranking = jnp.argsort(-mean_entropy, stable=True)
    high = jnp.zeros(num_problems, bool).at[ranking[:num_high]].set(True)
    return jnp.where(
        high[:, None],
        _along_curve(correct, curves.pass_at_1),
        _along_curve(correct, curves.pass_at_k, k=k),
    )


def _along_curve(
    correct: Bool[Array, 'P N'], curve: Callable[..., curves.Curve], **params: Any
) -> Float[Array, 'P N']:
    """Gives each response the value its problem's curve has for it."""
    num_correct = jnp.sum(correct, axis=-1)
    positive, negative = curve(num_correct, num_rollouts=correct.shape[-1], **params)
    return jnp.where(correct, positive[:, None], negative[:, None])


def _group_advantages(passed: Bool[Array, 'P M']) -> Float[Array, 'P M']:
    """GRPO over groups, whose rewards are 1 if they passed and else 0."""
    return _along_curve(passed, curves.pass_at_1)


def _to_unit_interval(
    rewards: Float[Array, 'P N'], flat: Bool[Array, 'P 1']
) -> Float[Array, 'P N']:
    """Maps each row to [0, 1]; rows said to be flat keep their spread."""
    lowest = jnp.min(rewards, axis=-1, keepdims=True)
    spread = jnp.max(rewards, axis=-1, keepdims=True) - lowest
    return (rewards - lowest) / jnp.where(flat, 1.0, spread)


@dataclasses.dataclass(frozen=True)
class Estimator:
    """A row of :data:`ESTIMATORS`.

    Attributes:
        compute: called with exactly the arrays of ``reads`` and the ``parameters``
            that were given, all by keyword.
        reads: which of ``rewards``, ``correct``, ``key`` and ``mean_entropy``.
        parameters: its parameters; ``k`` is required, the rest have defaults.
    """

    compute: Callable[..., Float[Array, 'P N']]
    reads: tuple[str, ...]
    parameters: tuple[str, ...] = ()


def _of_curve(curve: Callable[..., curves.Curve], *parameters: str) -> Estimator:
    compute = functools.partial(_along_curve, curve=curve)
    return Estimator(compute, ('correct',), parameters)


ESTIMATORS: dict[str, Estimator] = {
    'pass_at_1': Estimator(pass_at_1, ('rewards',)),
    'full_sampling': Estimator(full_sampling, ('correct',), ('k',)),
    'bootstrap_sampling': Estimator(
        bootstrap_sampling, ('correct', 'key'), ('k', 'num_groups', 'aggregation')
    ),
    'pass_at_k': _of_curve(curves.pass_at_k, 'k'),
    'pass_at_k_real': Estimator(pass_at_k_real, ('rewards',), ('k',)),
    'without_easy': _of_curve(curves.without_easy, 'k', 'easy_threshold'),
    'piecewise': _of_curve(curves.piecewise, 'k', 'switch_threshold'),
    'exceeding': _of_curve(curves.exceeding, 'k'),
    'combination': _of_curve(curves.combination, 'k'),
    'adaptive': Estimator(
        adaptive, ('correct', 'mean_entropy'), ('k', 'high_entropy_fraction')
    ),
}


def estimator_parameters(name: str) -> tuple[str, ...]:
    """The parameters ``make_estimator(name, ...)`` takes besides ``num_rollouts``.

    Raises:
        ValueError: there is no estimator of that name.
    """
    if name not in ESTIMATORS:
        raise InputError(f'unknown estimator {name!r}; choose from {list(ESTIMATORS)}')
    return ESTIMATORS[name].parameters


def make_estimator(name: str, *, num_rollouts: int, **params: Any) -> AdvantageFn:
    """Makes the function that turns a batch's rewards into advantages.

    Args:
        name: a name of :data:`ESTIMATORS`.
        num_rollouts: N.
        **params: values for ``estimator_parameters(name)``; ``k`` must be given.

    Returns:
        ``fn(rewards, correct, *, key=None, mean_entropy=None) -> advantages``, with
        ``rewards`` ``[P, N]`` real, ``correct`` ``[P, N]`` bool, ``key`` as
        :func:`bootstrap_sampling` takes it, ``mean_entropy`` ``[P]`` and the
        advantages ``[P, N]`` float32; pure, to be jitted by the caller. It raises
        ValueError on other shapes, on a ``correct`` that is not boolean, and where
        an estimator needs a ``key`` or a ``mean_entropy`` that is not given.

    Raises:
        ValueError: an unknown name; a parameter that is unknown, missing or bad.

    >>> estimate = make_estimator('pass_at_k', num_rollouts=4, k=2)
    >>> correct = jnp.array([[True, False, False, False]])
    >>> estimate(correct.astype(jnp.float32), correct)[0, 0].item()
    1.0
    """
    known = estimator_parameters(name)
    if unknown := sorted(set(params) - set(known)):
        raise InputError(f'{name} has no parameter {unknown}; it has {list(known)}')
    if 'k' in known and 'k' not in params:
        raise InputError(f'{name} needs the parameter k')
    curves.check_group_size(num_rollouts=num_rollouts, k=params.get('k', 1))
    for parameter, value in params.items():
        _check_parameter(parameter, value)
    estimator = ESTIMATORS[name]

    def estimate(
        rewards: Float[Array, 'P N'],
        correct: Bool[Array, 'P N'],
        *,
        key: jax.Array | None = None,
        mean_entropy: Float[Array, 'P'] | None = None,
    ) -> Float[Array, 'P N']:
        correct = jnp.asarray(correct)
        arrays = {
            'rewards': jnp.asarray(rewards, jnp.float32),
            'correct': correct,
            'key': key,
            'mean_entropy': mean_entropy,
        }
        _check_arrays(arrays, name=name, num_rollouts=num_rollouts)
        return estimator.compute(**{a: arrays[a] for a in estimator.reads}, **params)

    return estimate


def _check_parameter(name: str, value: Any) -> None:
    """Checks a value on its own; ``k`` was checked against ``num_rollouts``."""
    if name == 'aggregation':
        good, want = value in AGGREGATIONS, f'one of {AGGREGATIONS}'
    elif name in ('k', 'num_groups'):
        good = isinstance(value, (int, np.integer)) and value >= 0
        want = 'a whole number, 0 or more'
    else:
        good = isinstance(value, (int, float, np.number)) and 0.0 <= value <= 1.0
        want = 'a number in [0, 1]'
    if isinstance(value, bool) or not good:
        raise InputError(f'{name}={value!r} must be {want}')


def _check_arrays(arrays: dict[str, Any], *, name: str, num_rollouts: int) -> None:
    rewards, correct = arrays['rewards'], arrays['correct']
    if rewards.ndim != 2 or rewards.shape[1] != num_rollouts:
        raise InputError(f'{rewards.shape=} must be [P, {num_rollouts=}]')
    if correct.shape != rewards.shape:
        raise InputError(f'{correct.shape=} must be that of rewards, {rewards.shape}')
    if correct.dtype != jnp.bool:
        raise InputError(f"{correct.dtype=} must be bool: the verifier's own channel")
    for needed in ('key', 'mean_entropy'):
        if needed in ESTIMATORS[name].reads and arrays[needed] is None:
            raise InputError(f'{name} needs {needed}=')
    entropy = arrays['mean_entropy']
    if entropy is not None and jnp.shape(entropy) != rewards.shape[:1]:
        raise InputError(
            f'mean_entropy has shape {jnp.shape(entropy)}, not [P={len(rewards)}]'
        )
