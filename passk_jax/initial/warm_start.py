"""Trains on a task's demonstrations before the RL.

A policy that never succeeds gets no signal from any advantage, so a warm start gives it
a base to explore from. It is the verb *update* with another loss: the mean negative
log-likelihood of one demonstration per problem, the stop token included. (seed, step)
determines a batch and (seed, problem) a demonstration, so the result is a pure function
of the configuration and can be cached.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np
from absl import logging
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax import sharding
from passk_jax.config import DataConfig, WarmStartConfig
from passk_jax.data.batches import Batches, TokenizedProblems, make_batches
from passk_jax.errors import InputError, NonFiniteError
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import Batch, Loss
from passk_jax.learning.losses import Metrics
from passk_jax.learning.update import Update
from passk_jax.models.frozen import split_weights
from passk_jax.models.policy import Params, Policy, TokenScores
from passk_jax.models.tokenizer import Tokenizer
from passk_jax.runs.progress import Progress
from passk_jax.sampling import Purpose
from passk_jax.tasks import Task, require, weights_of
from passk_jax.tasks.abilities import Demonstrations
from passk_jax.types import Problem, Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class WarmStartData:
    """The demonstrations of a task, as tokens.

    Attributes:
        task: offers :class:`Demonstrations` of its problems.
        read: reads this many training problems; 0: all.
        tokenizer, stop_token: the policy's; the token ends every demonstration.
        warm_start: the number of problems and steps, and the kind of demonstration.
        data: determines the prompts; part of a stored warm start's fingerprint.
        max_response_tokens: tokens of the longest demonstration, with the stop token.
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
        """Makes the batches of demonstrated problems, one a step.

        Raises:
            ValueError: there are fewer problems than ``warm_start.num_problems``, or
                than a batch.
        """
        return make_batches(
            self.read(self.warm_start.num_problems),
            num_prompts=self.warm_start.batch_size,
            # In the same order, RL would begin with the problems of the warm start.
            seed=(self.seed, Purpose.WARM_START),
            weights=weights_of(self.task),
            name='init.warm_start.batch_size',
        )

    def tokens(self, problems: Sequence[Problem]) -> tuple[np.ndarray, np.ndarray]:
        """Encodes demonstrations: tokens ``[P, 1, T]``, and lengths ``[P, 1]``.

        A length counts the stop token. It is 0 if a demonstration is longer than T.
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

    def examples(self, count: int) -> list[dict[str, str]]:
        """Returns the first prompts and demonstrations as text, with special tokens.

        A demonstration is empty if it exceeds the token limit.
        """
        problems, prompts = self.batches()[0]
        tokens, lengths = self.tokens(problems[:count])
        rows = range(len(tokens))
        prompt_ids = [prompts.tokens[i, : prompts.lengths[i]] for i in rows]
        answers = [tokens[i, 0, : lengths[i, 0]] for i in rows]
        decode = self.tokenizer.decode
        return [
            {'prompt': str(decode(prompt)), 'demonstration': str(decode(answer))}
            for prompt, answer in zip(prompt_ids, answers, strict=True)
        ]

    def rollouts(
        self, problems: Sequence[Problem], prompts: Prompts[np.ndarray]
    ) -> Rollouts[np.ndarray]:
        """Makes rollouts whose responses are demonstrations, one for each problem."""
        tokens, lengths = self.tokens(problems)
        zeros = np.zeros(tokens.shape, np.float32)
        return Rollouts(prompts, tokens, lengths, lengths > 0, zeros, zeros, zeros)


@dataclasses.dataclass(frozen=True)
class DemonstrationLoss(Loss):
    """The mean negative log-likelihood of the tokens of demonstrations."""

    temperature: float = 1.0

    def share(
        self,
        scores: TokenScores,
        batch: Batch,
        is_first: Bool[Array, ''],
        normalizer: Float[Array, ''],
        factors: Float[Array, 'E'] | None,
    ) -> tuple[Float[Array, ''], Metrics]:
        """Computes a micro-batch's share of the mean."""
        del is_first, factors
        masked = jnp.where(self.mask(batch.rollouts), scores.log_probs, 0.0)
        loss = -masked.sum() / normalizer
        return loss, {'loss': loss, 'problem_loss': -masked.sum((1, 2)) / normalizer}


def make_update(policy: Policy, mesh: Mesh, config: WarmStartConfig) -> Update:
    """Makes the learner of demonstrations, whose step is one update on one batch."""
    optimizer = optimizers.make_optimizer(config.optimizer, num_updates=config.steps)
    loss = DemonstrationLoss(policy)
    return Update(
        loss=loss, optimizer=optimizer, mesh=mesh, num_updates=1, num_micro_batches=1
    )


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
        params: the parameters to start from; do not use them afterwards.
        demonstrations, stop, on_step: as in ``params.initial_params``.

    Returns:
        The trained parameters; ``None`` if ``stop`` returned true.

    Raises:
        ValueError: no demonstration of a batch fits in a response.
        NonFiniteError: the loss of a step is not finite.
    """
    config = demonstrations.warm_start
    batches = demonstrations.batches()
    update = make_update(policy, mesh, config)
    weights = split_weights(policy, params)
    state = states.init_state(policy, update.optimizer, weights.trained, mesh)
    pending, num_dropped = None, 0
    with Progress(config.steps, initial=0, description='warm start') as progress:
        for step in range(config.steps):
            on_step(step)
            if stop():
                return None
            problems, prompts = batches[step]
            rollouts = demonstrations.rollouts(problems, prompts)
            num_dropped += int((rollouts.lengths == 0).sum())
            if not rollouts.lengths.any():
                raise InputError(
                    f'no demonstration of warm-start step {step} fits in '
                    f'sampling.max_response_tokens={demonstrations.max_response_tokens}'
                    ': raise it'
                )
            batch = sharding.place(mesh, (rollouts, np.ones_like(rollouts.lengths)))
            state, metrics = update(state, *batch, frozen=weights.frozen)
            # The devices still run this step, so read the loss of the step before.
            if pending is not None:
                progress.update(step, loss=_finite(pending, step - 1))
            pending = metrics['loss']
        if pending is not None:
            progress.update(config.steps, loss=_finite(pending, config.steps - 1))
    if num_dropped:
        logging.warning(
            'left out %d of %d demonstrations, as they are longer than '
            'sampling.max_response_tokens',
            num_dropped,
            config.steps * config.batch_size,
        )
    return dataclasses.replace(weights, trained=state.params).merged


def _finite(loss: jax.Array, step: int) -> float:
    value = float(loss)
    if not np.isfinite(value):
        raise NonFiniteError(f'the loss is {value} at warm-start step {step}')
    return value
