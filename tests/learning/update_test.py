"""The verb *update*: it is a function of the rollouts, not of how they are cut."""

import dataclasses
import functools

import jax
import numpy as np
import optax
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import LossConfig, OptimizerConfig
from passk_jax.learning import batch_loss
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.types import Prompts, Rollouts
from tests.models import oracle
from tests.slow import slow_rows

P, N, S, T, VOCAB = 8, 4, 6, 5, 11

LOSS = LossConfig(
    clip_low=0.2,
    clip_high=0.28,
    aggregation='token',
    entropy_coef=0.0,
    kl_coef=0.0,
    kl_estimator='k3',
    mask_truncated=False,
    sampler_weight_cap=0.0,
    router_aux_coef=0.0,
)
OPTIMIZER = OptimizerConfig(
    name='adamw',
    learning_rate=1e-2,
    warmup_updates=0,
    schedule='constant',
    b1=0.9,
    b2=0.95,
    # Adam divides by the root of its second moment: with a small eps, a gradient that
    # is zero but for rounding would move as far as any other.
    eps=1e-3,
    weight_decay=0.1,
    max_grad_norm=1.0,
)


def make_policy() -> policies.Policy:
    return oracle.tiny_policy(vocab_size=VOCAB, num_layers=1, tie_embeddings=True)


def make_mesh(data: int = 1, fsdp: int = 1, tensor: int = 1):
    devices = jax.devices()[: data * fsdp * tensor]
    return sharding.make_mesh(
        data=data, fsdp=fsdp, rollout=1, tensor=tensor, devices=devices
    )


def make_rollouts(*, pad: int = 0, garbage: int = 0) -> Rollouts:
    rng = np.random.default_rng(0)
    tokens = np.pad(rng.integers(0, VOCAB, (P, N, T)), ((0, 0), (0, 0), (0, pad)))
    lengths = rng.integers(1, T + 1, (P, N)).astype(np.int32)
    tokens = np.where(np.arange(T + pad) < lengths[..., None], tokens, garbage)
    prompts = rng.integers(0, VOCAB, (P, S)).astype(np.int32)
    zeros = np.zeros((P, N, T + pad), np.float32)
    return Rollouts(
        prompts=Prompts(
            tokens=prompts,
            lengths=rng.integers(2, S + 1, P).astype(np.int32),
            problem_ids=np.arange(P, dtype=np.int32),
        ),
        tokens=tokens.astype(np.int32),
        lengths=lengths,
        stopped=np.ones((P, N), bool),
        sampler_log_probs=zeros,
        untruncated_log_probs=zeros,
        entropies=zeros,
    )


def make_advantages() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(P, N)).astype(np.float32)


@functools.cache
def make_step(
    mesh,
    *,
    loss=LOSS,
    optimizer=OPTIMIZER,
    num_updates=1,
    num_micro_batches=1,
    rollout_parts=1,
    pack_sizes=0,
    epochs=1,
    deals=False,
):
    """The update of these settings: one program for all tests that have them."""
    return Update(
        loss=BatchLoss(make_policy(), 1.0, loss),
        optimizer=optimizers.make_optimizer(optimizer),
        mesh=mesh,
        num_updates=num_updates,
        num_micro_batches=num_micro_batches,
        rollout_parts=rollout_parts,
        pack_sizes=pack_sizes,
        epochs=epochs,
        deals=deals,
    )


def begin(mesh, optimizer=OPTIMIZER):
    """The first state, as training has it."""
    policy = make_policy()
    params = policies.init_params(policy, jax.random.key(0), mesh)
    transform = optimizers.make_optimizer(optimizer)
    return states.init_state(policy, transform, params, mesh)


@functools.cache
def start(optimizer=OPTIMIZER):
    """The first state, as numpy: a step consumes the state that it is given."""
    mesh = make_mesh()
    with jax.set_mesh(mesh):
        return jax.device_get(begin(mesh, optimizer))


def place(mesh, optimizer=OPTIMIZER):
    """A new copy of the first state, on the mesh."""
    transform = optimizers.make_optimizer(optimizer)
    shapes = states.state_shapes(make_policy(), transform, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, shapes)
    return jax.device_put(start(optimizer), shardings, may_alias=False)


def run_step(
    *,
    mesh=None,
    rollouts=None,
    advantages=None,
    steps=1,
    with_ref=False,
    optimizer=OPTIMIZER,
    **options,
):
    """The parameters, as numpy, and metrics after ``steps`` steps from one start."""
    mesh = make_mesh() if mesh is None else mesh
    with jax.set_mesh(mesh):
        train_step = make_step(mesh, optimizer=optimizer, **options)
        state = place(mesh, optimizer)
        ref = place(mesh, optimizer).params if with_ref else None
        for _ in range(steps):
            state, metrics = train_step(
                state,
                make_rollouts() if rollouts is None else rollouts,
                make_advantages() if advantages is None else advantages,
                ref,
            )
    return jax.device_get(state.params), jax.device_get(metrics)


@functools.partial(jax.jit, static_argnums=0)
def figures_of(policy, params, rollouts):
    """The learner's own log-probabilities and entropies, outside of any train step."""
    return policies.token_log_probs(
        policy, params, rollouts.prompts, rollouts.tokens, temperature=1.0
    )


def log_probs_of(policy, params, rollouts):
    return figures_of(policy, params, rollouts)[0]


def assert_params_close(a, b, *, atol: float) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], atol=atol, err_msg=name)


# The loss of the tests that cut a step of two updates up: each of its whole is one
# program.
FULL_LOSS = dataclasses.replace(LOSS, entropy_coef=0.01)


@pytest.mark.parametrize(
    ('aggregation', 'num_micro_batches'),
    [('token', 2), *slow_rows([('sequence', 4)])],
)
def test_micro_batches_do_not_change_the_update(aggregation, num_micro_batches):
    loss = dataclasses.replace(FULL_LOSS, aggregation=aggregation)
    undivided, metrics = run_step(loss=loss, num_updates=2)
    cut, cut_metrics = run_step(
        loss=loss, num_updates=2, num_micro_batches=num_micro_batches
    )
    assert_params_close(undivided, cut, atol=2e-6)
    assert metrics['loss'] == pytest.approx(cut_metrics['loss'], abs=1e-6)
    np.testing.assert_allclose(
        metrics['problem_loss'], cut_metrics['problem_loss'], atol=1e-6
    )


# On a mesh of every axis: one program for the three tests that run it.
ON_A_MESH = {'loss': FULL_LOSS, 'num_updates': 2, 'num_micro_batches': 2}


@pytest.mark.parametrize(
    # The first has more devices along the batch than an update has prompts.
    ('shape', 'changes'),
    [*slow_rows([((2, 4, 1), {})]), ((2, 2, 2), ON_A_MESH)],
)
def test_the_mesh_does_not_change_the_update(shape, changes):
    settings = {'loss': FULL_LOSS, 'num_updates': 2}
    alone, metrics = run_step(**settings)
    together, mesh_metrics = run_step(mesh=make_mesh(*shape), **(settings | changes))
    assert_params_close(alone, together, atol=5e-6)
    assert metrics['grad_norm'] == pytest.approx(mesh_metrics['grad_norm'], rel=1e-4)


def test_padding_and_what_stands_in_it_do_not_change_the_update():
    tight, _ = run_step()
    loose, _ = run_step(rollouts=make_rollouts(pad=3, garbage=VOCAB - 1))
    assert_params_close(tight, loose, atol=2e-6)


def test_the_first_update_of_every_step_is_on_policy():
    # One update a step: whatever steps went before, old is current, exactly.
    for steps in (1, 3):
        _, metrics = run_step(steps=steps)
        assert metrics['old_kl'] == 0.0
        assert metrics['clip_fraction_low'] == metrics['clip_fraction_high'] == 0.0
        assert metrics['ratio_max'] == 1.0


@pytest.mark.slow
def test_later_updates_of_a_step_are_off_policy():
    _, metrics = run_step(num_updates=4)
    assert metrics['old_kl'] > 0
    assert metrics['ratio_max'] > 1.0


def test_one_update_is_the_plain_policy_gradient():
    # At ratio 1 the surrogate's gradient is REINFORCE's with a token-level mean.
    rollouts, advantages = make_rollouts(), make_advantages()
    params = start().params

    def reinforce(params):
        log_probs = log_probs_of(make_policy(), params, rollouts)
        mask = batch_loss.response_mask(rollouts)
        weighted = jnp.where(mask, log_probs * advantages[..., None], 0)
        return -weighted.sum() / mask.sum()

    expected = jax.jit(lambda x: optax.tree.norm(jax.grad(reinforce)(x)))(params)
    _, metrics = run_step()
    assert metrics['grad_norm'] == pytest.approx(float(expected), rel=1e-4)


@dataclasses.dataclass(frozen=True)
class Steady(BatchLoss):
    """A loss with the same gradient in each micro-batch."""

    def __call__(self, params, batch, *_, **__):
        loss = jnp.float32(0.01) * params['x']
        problem_loss = jnp.zeros(len(batch.advantages))
        metrics = {'loss': loss, 'problem_loss': problem_loss}
        return loss, (metrics, jnp.zeros(batch.rollouts.tokens.shape))


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_gradients_of_many_micro_batches_add_up_in_any_dtype(dtype):
    """In bfloat16, a sum of 1000 times 0.01 would stop at 4."""
    size = 1000

    def keep(grads, state, params):
        return jax.tree.map(jnp.zeros_like, params), grads

    update = Update(
        loss=Steady(make_policy(), 1.0, LOSS),
        optimizer=optimizers.Optimizer(lambda params: params, keep, jnp.float32),
        mesh=make_mesh(),
        num_updates=1,
        num_micro_batches=size,
    )
    rollouts = jax.tree.map(lambda x: np.repeat(x, size // P, axis=0), make_rollouts())
    batch = batch_loss.Batch(rollouts, np.ones((size, N), np.float32))
    params = {'x': jnp.zeros((), dtype)}
    take_step = jax.jit(functools.partial(update.take_step, {}))
    (after, grads), _ = take_step((params, ()), (jnp.bool_(True), batch))
    assert after['x'].dtype == dtype
    assert float(grads['x']) == pytest.approx(10, rel=2e-3)


@pytest.mark.slow
def test_zero_advantages_change_nothing_but_weight_decay():
    still = dataclasses.replace(OPTIMIZER, weight_decay=0.0)
    before = start().params
    after, metrics = run_step(advantages=np.zeros((P, N), np.float32), optimizer=still)
    assert metrics['grad_norm'] == 0
    assert_params_close(before, after, atol=0)


def test_weight_decay_leaves_norms_and_biases_alone():
    before = start().params
    after, _ = run_step(advantages=np.zeros((P, N), np.float32))
    for name in before:
        moved = not np.array_equal(before[name], after[name])
        assert moved == name.endswith(('kernel', 'embedding')), name


def test_the_kl_to_the_reference_is_zero_at_first_and_then_grows():
    loss = dataclasses.replace(LOSS, kl_coef=0.1)
    _, first = run_step(loss=loss, with_ref=True)
    _, later = run_step(loss=loss, with_ref=True, steps=4)
    assert first['ref_kl_k3'] == pytest.approx(0, abs=1e-6)
    assert later['ref_kl_k3'] > 1e-4


def test_problem_losses_stand_in_the_order_of_the_problems():
    advantages = np.zeros((P, N), np.float32)
    settings = {'mesh': make_mesh(2, 2, 2), **ON_A_MESH}
    _, without = run_step(advantages=advantages, **settings)
    advantages[3] = 1.0
    _, metrics = run_step(advantages=advantages, **settings)
    # Before its own update nothing is another: the rest is the entropy's.
    changed = metrics['problem_loss'][0] != without['problem_loss'][0]
    assert np.flatnonzero(changed).tolist() == [3]


def test_the_warm_up_reaches_the_rate_and_wastes_no_update():
    config = dataclasses.replace(
        OPTIMIZER, warmup_updates=4, weight_decay=0.0, max_grad_norm=0.0, eps=1e-12
    )
    transform = optimizers.make_optimizer(config)
    params = {'x.kernel': jnp.zeros(1)}
    state = transform.init(params)
    moves, update_fn = [], jax.jit(transform.update)
    for _ in range(6):
        update, state = update_fn({'x.kernel': jnp.ones(1)}, state, params)
        moves.append(-float(update['x.kernel'][0]))
    # With a constant gradient, Adam moves by the rate.
    np.testing.assert_allclose(
        moves, 1e-2 * np.array([0.25, 0.5, 0.75, 1, 1, 1]), rtol=1e-4
    )


def test_a_step_compiles_once_and_reuses_the_state_it_is_given():
    mesh = make_mesh(2, 2, 2)
    with jax.set_mesh(mesh):
        state = begin(mesh)
        train_step = make_step(mesh, **ON_A_MESH)
        args = make_rollouts(), make_advantages(), None
        compiled = train_step.program.lower(state, *args).compile()
        per_device = sum(
            x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(state)
        )
        assert compiled.memory_analysis().alias_size_in_bytes == per_device
        sizes = []
        for _ in range(3):
            state, _ = train_step(state, *args)
            sizes.append(train_step.program._cache_size())
        assert sizes[1:] == sizes[:-1]
        assert int(state.step) == 3


def test_the_sampler_gap_is_the_distance_to_the_learners_own_log_probs():
    rollouts = make_rollouts()
    params = start().params
    shifted = np.array(log_probs_of(make_policy(), params, rollouts))
    shifted[2, 1, 0] += 0.5
    _, metrics = run_step(
        rollouts=dataclasses.replace(rollouts, untruncated_log_probs=shifted)
    )
    assert metrics['sampler_gap_max'] == pytest.approx(0.5, abs=1e-5)
    tokens = int(rollouts.lengths.sum())
    assert metrics['sampler_gap_mean'] == pytest.approx(0.5 / tokens, abs=1e-5)
    # k3 of a token whose sampler is 0.5 above the learner: exp(-0.5) - 1 + 0.5.
    k3 = (np.exp(-0.5) - 0.5) / tokens
    assert metrics['sampler_k3'] == pytest.approx(k3, abs=1e-6)


def test_the_update_that_went_wrong_is_told_from_those_that_suffer_from_it():
    advantages = make_advantages()
    advantages[2, 1] = np.nan
    _, metrics = run_step(advantages=advantages, num_updates=4)
    # Problem 2 is in update 2 of 4; update 3 has its parameters, and is no culprit.
    assert metrics['finite_updates'].tolist() == [[True, True, False, False]]
    first = metrics['problem_loss'][0, 2::4]
    assert np.isfinite(first).tolist() == [False, True]
