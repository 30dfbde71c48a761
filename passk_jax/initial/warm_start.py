"""Supervised training on a task's demonstrations, before the RL.

A policy that never succeeds gets no signal from any advantage, so this stage gives it a
base to explore from. It runs the learner's forward pass on one demonstration per
problem and minimizes the mean negative log-likelihood of its tokens, the stop token
included. (seed, step) determines a batch and (seed, problem) a demonstration, so the
result is a pure function of the configuration and can be cached.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import optax
from absl import logging
from jax import numpy as jnp
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.config import DataConfig, WarmStartConfig
from passk_jax.data.batches import Batches, TokenizedProblems, make_batches
from passk_jax.errors import InputError, NonFiniteError
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.masked import masked_mean
from passk_jax.models import policy as policies
from passk_jax.models.policy import Params, Policy
from passk_jax.models.tokenizer import Tokenizer
from passk_jax.runs.progress import Progress
from passk_jax.sampling import Purpose
from passk_jax.tasks import Task, require, weights_of
from passk_jax.tasks.abilities import Demonstrations
from passk_jax.types import Problem, Prompts


@dataclasses.dataclass(frozen=True)
class WarmStartData:
    """The demonstrations of a task, as tokens.

    Attributes:
        task: offers :class:`Demonstrations` of its problems.
        read: reads this many training problems; 0: all.
        tokenizer: the policy's tokenizer.
        stop_token: ends every demonstration.
        warm_start: how many problems and steps, and which kind of demonstration.
        data: what decided the prompts; it identifies a kept warm start.
        max_response_tokens: of the longest demonstration, the stop token included.
        seed: the experiment's seed.
    """

    task: Task
    read: Callable[[int], TokenizedProblems]
    tokenizer: Tokenizer
    stop_token: int
    warm_start: WarmStartConfig
    data: DataConfig
    max_response_tokens: int
    seed: int

    def batches(self) -> Batches:
        """The demonstrated problems, by step.

        Raises:
            ValueError: there are fewer problems than ``warm_start.num_problems``, or
                than a batch.
        """
        return make_batches(
            self.read(self.warm_start.num_problems),
            num_prompts=self.warm_start.batch_size,
            # The RL's order would show the policy the same problems again.
            seed=(self.seed, Purpose.WARM_START),
            weights=weights_of(self.task),
        )

    def tokens(self, problems: Sequence[Problem]) -> tuple[np.ndarray, np.ndarray]:
        """Demonstrations for these problems.

        Returns:
            Tokens ``[P, 1, T]``, and lengths ``[P, 1]`` that count the stop token: 0
            where a demonstration is longer than a response may be.
        """
        limit = self.max_response_tokens
        task = require(self.task, Demonstrations, needed_by="init.kind='warm_start'")
        tokens = np.zeros((len(problems), 1, limit), np.int32)
        lengths = np.zeros((len(problems), 1), np.int32)
        for row, problem in enumerate(problems):
            rng = np.random.default_rng((self.seed, problem.id))
            kind = self.warm_start.demonstrations
            text = task.demonstration(problem, kind=kind, rng=rng)
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            ids = [*ids, self.stop_token]
            if len(ids) <= limit:
                tokens[row, 0, : len(ids)] = ids
                lengths[row, 0] = len(ids)
        return tokens, lengths


def make_step(
    policy: Policy, mesh: Mesh, config: WarmStartConfig
) -> tuple[optax.GradientTransformation, Callable[..., Any]]:
    """The optimizer and the jitted supervised step."""
    optimizer = optimizers.make_optimizer(config.optimizer, num_updates=config.steps)
    return optimizer, _step_program(policy, mesh, optimizer)


@functools.lru_cache(maxsize=16)
def _step_program(
    policy: Policy, mesh: Mesh, optimizer: optax.GradientTransformation
) -> Callable[..., Any]:
    def loss(params: Params, prompts: Prompts, tokens: jax.Array, lengths: jax.Array):
        batch = (params, prompts, tokens)
        log_probs, *_ = policies.token_log_probs(policy, *batch, temperature=1.0)
        mask = jnp.arange(tokens.shape[-1]) < lengths[..., None]
        return -masked_mean(log_probs, mask)

    def step(state: states.TrainState, *batch: Any):
        value, grads = jax.value_and_grad(loss)(state.params, *batch)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return states.TrainState(params, opt_state, state.step + 1), value

    shapes = states.state_shapes(policy, optimizer, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, shapes)
    return jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))


def warm_start(
    policy: Policy,
    params: Params,
    demonstrations: WarmStartData,
    mesh: Mesh,
    *,
    stop: Callable[[], bool],
    on_step: Callable[[int], None] = lambda step: None,
) -> Params | None:
    """Trains on demonstrations.

    Args:
        policy, mesh: the policy, and the mesh that holds its parameters.
        params: where to start; do not use them afterwards.
        demonstrations: what to learn from.
        stop: asked at every step whether to stop; nothing is kept then.
        on_step: is told of each step before it begins.

    Returns:
        The trained parameters; ``None`` if ``stop`` said so.

    Raises:
        ValueError: no demonstration of a batch fits in a response.
        NonFiniteError: the loss is not finite; the message names the step.
    """
    config = demonstrations.warm_start
    batches = demonstrations.batches()
    optimizer, step_fn = make_step(policy, mesh, config)
    state = states.init_state(policy, optimizer, params, mesh)
    pending, num_dropped = None, 0
    with Progress(config.steps, initial=0, description='warm start') as progress:
        for step in range(config.steps):
            on_step(step)
            if stop():
                return None
            problems, prompts = batches[step]
            tokens, lengths = demonstrations.tokens(problems)
            num_dropped += int((lengths == 0).sum())
            if not lengths.any():
                raise InputError(
                    f'no demonstration of warm-start step {step} fits in '
                    f'sampling.max_response_tokens={demonstrations.max_response_tokens}'
                )
            batch = sharding.place(mesh, (prompts, tokens, lengths))
            state, loss = step_fn(state, *batch)
            # This step is still running, so read the loss of the step before.
            if pending is not None:
                progress.update(step, loss=_finite(pending, step - 1))
            pending = loss
        if pending is not None:
            progress.update(config.steps, loss=_finite(pending, config.steps - 1))
    if num_dropped:
        logging.warning(
            'left out %d of %d demonstrations, longer than a response may be',
            num_dropped,
            config.steps * config.batch_size,
        )
    return state.params


def _finite(loss: jax.Array, step: int) -> float:
    value = float(loss)
    if not np.isfinite(value):
        raise NonFiniteError(f'the loss is {value} at warm-start step {step}')
    return value
