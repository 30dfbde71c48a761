"""Batches of prompts from a random-access source of problems.

    source -> too long? -> shuffle by epoch -> batch -> this host's rows -> tokens

Training (:func:`make_batches`) goes through grain's random-access ``MapDataset``:
``batches[step]`` is a pure function of the step, the seed and the source, so a resumed
run needs no iterator's state. Evaluation (:func:`evaluation_batches`) goes through a
split in order, each problem once. All batches of a call have one shape, so each user of
them compiles once.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import grain
import numpy as np
from absl import logging

from passk_jax.errors import InputError
from passk_jax.types import Problem, Prompts

Encode = Callable[[str], list[int]]

OVERLONG = ('drop', 'error')

# Prompts are padded to a multiple of the first, or of the second if they are longer
# than it, or to the limit if that is nearer: so that every mesh that splits the tokens
# of long prompts, and every kernel, divides them.
_WIDTH_MULTIPLE, _LONG_WIDTH_MULTIPLE = 8, 128


@dataclasses.dataclass(frozen=True)
class _Kept:
    """The problems whose prompts are short enough.

    Attributes:
        source: all problems.
        encode: prompt text to tokens.
        indices: places in the source, ascending.
        num_dropped: problems left out for their length.
        width: tokens that every prompt is padded to.
    """

    source: Sequence[Problem]
    encode: Encode
    indices: np.ndarray
    num_dropped: int
    width: int

    def batch(self, rows: Sequence[int]) -> tuple[list[Problem], Prompts]:
        """Problems and padded prompts of these rows of ``indices``."""
        problems = [self.source[int(self.indices[row])] for row in rows]
        tokens = np.zeros((len(problems), self.width), np.int32)
        lengths = np.zeros(len(problems), np.int32)
        for row, problem in enumerate(problems):
            ids = self.encode(problem.prompt)
            tokens[row, : len(ids)] = ids
            lengths[row] = len(ids)
        ids = np.array([problem.id for problem in problems], np.int32)
        return problems, Prompts(tokens, lengths, ids)


class Batches(Sequence):
    """``batches[step]`` for any step >= 0; see :func:`make_batches`.

    Attributes:
        num_problems: problems of an epoch, those too long left out.
        num_dropped: problems that were too long.
        prompt_width: S, the same in every batch.
    """

    def __init__(
        self, kept: _Kept, *, num_prompts: int, seed: int | Sequence[int], mine: slice
    ):
        self._kept = kept
        self._mine = mine
        self._rows = (
            _shuffled(kept, seed).batch(num_prompts, drop_remainder=True).repeat()
        )
        self.num_problems = len(kept.indices)
        self.num_dropped = kept.num_dropped
        self.prompt_width = kept.width

    def __len__(self) -> int:
        """As good as endless: epochs follow one another."""
        return len(self._rows)

    def __getitem__(self, step: int) -> tuple[list[Problem], Prompts]:
        if step < 0:
            raise IndexError(f'{step=} is negative')
        return self._kept.batch(self._rows[int(step)][self._mine])

    def others(
        self, step: int, *, seed: Sequence[int]
    ) -> Iterator[tuple[list[Problem], Prompts, np.ndarray]]:
        """Batches of the problems that ``self[step]`` has not, each problem once.

        Their order is drawn without replacement, anew for each step. What is missing in
        the last batch is filled up with problems of ``self[step]``; where there are no
        others, there is no batch.

        Args:
            step: at least 0.
            seed: of the orders of all steps; nothing else may have it.

        Yields:
            Problems and prompts as ``self[step]`` has them, and a bool for each: it is
            another one, and no filling.
        """
        own = self._rows[int(step)]
        order, taken = _shuffled(self._kept, (*seed, step)), set(own.tolist())
        # By index: iterating over a MapDataset would read ahead, in threads.
        rows = (int(order[i]) for i in range(len(order)))
        others = (row for row in rows if row not in taken)
        while batch := list(itertools.islice(others, len(own))):
            is_other = np.arange(len(own)) < len(batch)
            batch = np.array([*batch, *own[: len(own) - len(batch)]])[self._mine]
            yield *self._kept.batch(batch), is_other[self._mine]


def _shuffled(kept: _Kept, seed: int | Sequence[int]) -> grain.MapDataset:
    """The rows of ``kept.indices`` in an order of their own."""
    # Grain's epochs count up from the seed: hashed, no seed's second epoch is the
    # first of the next seed.
    (hashed,) = np.random.SeedSequence(seed).generate_state(1)
    return grain.MapDataset.range(len(kept.indices)).shuffle(seed=int(hashed))


def make_batches(
    source: Sequence[Problem],
    encode: Encode,
    *,
    num_prompts: int,
    seed: int | Sequence[int],
    max_prompt_tokens: int,
    overlong: str,
    process_index: int = 0,
    process_count: int = 1,
) -> Batches:
    """Shuffled batches, epoch after epoch, each epoch in another order.

    An epoch ends at its last whole batch, so that no problem is twice in a batch (its
    rollouts would share their random keys); what is left over differs by epoch.

    Args:
        source: problems by place.
        encode: prompt text to tokens.
        num_prompts: P, over all hosts.
        seed: of the order; one number, or several: the experiment's and the purpose.
        max_prompt_tokens: longest prompt.
        overlong: ``'drop'`` longer ones, which are counted, or ``'error'``.
        process_index: which of the hosts this is; it gets its rows of each batch.
        process_count: hosts that share a batch; 1: every host has all of it.

    Returns:
        Problems and prompts (numpy, ``[P / process_count, S]``) by step.

    Raises:
        ValueError: no problems; fewer than a batch; too long a prompt; hosts that do
            not divide the batch.
    """
    if num_prompts < 1 or num_prompts % process_count:
        raise InputError(f'{num_prompts=} cannot be shared by {process_count=}')
    if not 0 <= process_index < process_count:
        raise InputError(f'{process_index=} is not below {process_count=}')
    kept = _keep(source, encode, max_prompt_tokens, overlong)
    if num_prompts > len(kept.indices):
        raise InputError(
            f'{num_prompts=} is more than the {len(kept.indices)} problems there are '
            f'({kept.num_dropped} were dropped as too long)'
        )
    local = num_prompts // process_count
    mine = slice(process_index * local, (process_index + 1) * local)
    return Batches(kept, num_prompts=num_prompts, seed=seed, mine=mine)


class EvaluationBatches:
    """Problems in order; iterate it any number of times.

    Attributes:
        num_problems: problems in all batches together, each counted once.
        num_dropped: problems that were too long.
        prompt_width: S, the same in every batch.
    """

    def __init__(self, kept: _Kept, *, batch_size: int):
        self._kept = kept
        self._batch_size = batch_size
        self.num_problems = len(kept.indices)
        self.num_dropped = kept.num_dropped
        self.prompt_width = kept.width

    def __len__(self) -> int:
        return -(-self.num_problems // self._batch_size)

    def __iter__(self) -> Iterator[tuple[list[Problem], Prompts, int]]:
        for start in range(0, self.num_problems, self._batch_size):
            stop = min(start + self._batch_size, self.num_problems)
            # The last problem fills the last batch; only `valid` rows count.
            rows = np.minimum(np.arange(start, start + self._batch_size), stop - 1)
            problems, prompts = self._kept.batch(rows)
            yield problems, prompts, stop - start


def evaluation_batches(
    source: Sequence[Problem],
    encode: Encode,
    *,
    batch_size: int,
    num_problems: int,
    max_prompt_tokens: int,
    overlong: str,
) -> EvaluationBatches:
    """Batches over the first problems of a split, in order, each exactly once.

    Args:
        source: problems by place.
        encode: prompt text to tokens.
        batch_size: problems in every batch; the last one is filled with repeats.
        num_problems: how many to go through, too long ones included; 0: all.
        max_prompt_tokens: longest prompt.
        overlong: as in :func:`make_batches`; a dropped problem is not evaluated.

    Returns:
        Batches of problems, prompts (numpy, ``[batch_size, S]``) and how many of their
        rows, from the first, are valid.

    Raises:
        ValueError: no problems, or fewer than asked for; too long a prompt.
    """
    if batch_size < 1:
        raise InputError(f'{batch_size=} must be at least 1')
    if not 0 <= num_problems <= len(source):
        raise InputError(f'{num_problems=} of the {len(source)} problems there are')
    kept = _keep(source, encode, max_prompt_tokens, overlong, first=num_problems)
    return EvaluationBatches(kept, batch_size=batch_size)


def _keep(
    source: Sequence[Problem],
    encode: Encode,
    max_prompt_tokens: int,
    overlong: str,
    *,
    first: int = 0,
) -> _Kept:
    """Reads the first problems (0: all) and leaves out those that are too long."""
    if overlong not in OVERLONG:
        raise InputError(f'{overlong=} is none of {list(OVERLONG)}')
    count = first or len(source)
    if not count:
        raise InputError('there are no problems: the split is empty')
    lengths = np.zeros(count, np.int64)
    for index in range(count):
        problem = source[index]
        lengths[index] = len(encode(problem.prompt))
        if not lengths[index]:
            raise InputError(f'the prompt of problem {problem.id} has no tokens')
        if lengths[index] > max_prompt_tokens and overlong == 'error':
            raise InputError(
                f'the prompt of problem {problem.id} has {lengths[index]} tokens, more '
                f'than {max_prompt_tokens=}'
            )
    indices = np.flatnonzero(lengths <= max_prompt_tokens)
    num_dropped = count - len(indices)
    if not len(indices):
        raise InputError(
            f'all {count} prompts are longer than {max_prompt_tokens=}; the shortest '
            f'has {lengths.min()} tokens'
        )
    if num_dropped:
        logging.warning(
            '%d of %d prompts are longer than %d tokens and left out',
            num_dropped,
            count,
            max_prompt_tokens,
        )
    longest = int(lengths[indices].max())
    long = longest > _LONG_WIDTH_MULTIPLE
    multiple = _LONG_WIDTH_MULTIPLE if long else _WIDTH_MULTIPLE
    width = min(-(-longest // multiple) * multiple, max_prompt_tokens)
    return _Kept(source, encode, indices, num_dropped, width)
