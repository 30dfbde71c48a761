"""Supervised training on a task's demonstrations, before the RL.

A policy that never succeeds gets no signal from any advantage; this stage gives it a
base worth exploring from. It is the learner's forward pass with one demonstration a
problem and the mean negative log-likelihood of its tokens, the stop token included.
Batches and demonstrations are addressed by (seed, step) and (seed, problem), so the
stage is a pure function of the configuration and its result can be cached.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from absl import logging
from jax import numpy as jnp

from passk_jax.errors import InputError, NonFiniteError
from passk_jax.learning import learner
from passk_jax.masked import masked_mean
from passk_jax.models import policy as policies
from passk_jax.models.policy import Params
from passk_jax.rollouts.sample_and_verify import place
from passk_jax.runs.progress import Progress
from passk_jax.setup import Setup
from passk_jax.types import Problem, Prompts


def demonstrate(
    setup: Setup, problems: list[Problem]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Demonstrations of these problems as tokens.

    Returns:
        Tokens ``[P, 1, T]`` and lengths ``[P, 1]`` with the stop token counted, and
        how many were dropped (length 0) for being longer than a response may be.
    """
    warm_start = setup.config.init.warm_start
    limit = setup.config.sampling.max_response_tokens
    tokens = np.zeros((len(problems), 1, limit), np.int32)
    lengths = np.zeros((len(problems), 1), np.int32)
    for row, problem in enumerate(problems):
        rng = np.random.default_rng((setup.config.seed, problem.id))
        text = setup.task.demonstration(
            problem, kind=warm_start.demonstrations, rng=rng
        )
        ids = setup.tokenizer.encode(text, add_special_tokens=False)
        ids = [*ids, setup.stop_tokens[0]]
        if len(ids) <= limit:
            tokens[row, 0, : len(ids)] = ids
            lengths[row, 0] = len(ids)
    return tokens, lengths, int((lengths == 0).sum())


def make_step(setup: Setup) -> tuple[optax.GradientTransformation, Callable[..., Any]]:
    """The optimizer and the jitted supervised step."""
    optimizer = learner.make_optimizer(setup.config.init.warm_start.optimizer)

    def loss(params: Params, prompts: Prompts, tokens: jax.Array, lengths: jax.Array):
        log_probs, _ = policies.token_log_probs(
            setup.policy, params, prompts, tokens, temperature=1.0
        )
        mask = jnp.arange(tokens.shape[-1]) < lengths[..., None]
        return -masked_mean(log_probs, mask)

    def step(
        state: learner.TrainState,
        prompts: Prompts,
        tokens: jax.Array,
        lengths: jax.Array,
    ) -> tuple[learner.TrainState, jax.Array]:
        value, grads = jax.value_and_grad(loss)(state.params, prompts, tokens, lengths)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return learner.TrainState(params, opt_state, state.step + 1), value

    shapes = learner.state_shapes(setup.policy, optimizer, setup.mesh)
    shardings = jax.tree.map(lambda x: x.sharding, shapes)
    return optimizer, jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))


def warm_start(
    setup: Setup, params: Params, batches: Any, *, stop: Callable[[], bool]
) -> Params | None:
    """Trains ``params`` on demonstrations; takes ownership of them.

    Args:
        setup: the run's fixed parts.
        params: where to start.
        batches: ``batches[step] -> (problems, Prompts)``.
        stop: asked at every step; a stage that is stopped starts anew.

    Returns:
        The parameters, ``None`` if stopped.

    Raises:
        ValueError: no demonstration of a batch fits in a response.
        NonFiniteError: the loss is not finite, with its step.
    """
    config = setup.config.init.warm_start
    optimizer, step_fn = make_step(setup)
    state = learner.init_state(setup.policy, optimizer, params, setup.mesh)
    pending, num_dropped = None, 0
    with Progress(config.steps, initial=0, description='warm start') as progress:
        for step in range(config.steps):
            if stop():
                return None
            problems, prompts = batches[step]
            tokens, lengths, dropped = demonstrate(setup, problems)
            if dropped == len(problems):
                raise InputError(
                    f'no demonstration of warm-start step {step} fits in '
                    f'{setup.config.sampling.max_response_tokens=}'
                )
            num_dropped += dropped
            state, loss = step_fn(state, *place(setup, (prompts, tokens, lengths)))
            # Read the loss of the step before: this one is still running.
            if pending is not None:
                progress.update(step, loss=_finite(pending, step - 1))
            pending = loss
        if pending is not None:
            progress.update(config.steps, loss=_finite(pending, config.steps - 1))
    if num_dropped:
        logging.warning(
            '%d of %d demonstrations were longer than a response may be, and left out',
            num_dropped,
            config.steps * config.batch_size,
        )
    return state.params


def _finite(loss: jax.Array, step: int) -> float:
    value = float(loss)
    if not np.isfinite(value):
        raise NonFiniteError(f'the loss is {value} at warm-start step {step}')
    return value
