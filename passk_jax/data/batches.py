"""Batches of prompts from a random-access source of problems.

    source -> too long? -> shuffle by epoch -> batch -> this host's rows -> tokens

Training (:func:`make_batches`) draws by the orders of :mod:`passk_jax.data.orders`:
``batches[step]`` is a pure function of the step, the seed and the source, so a resumed
run needs no iterator state. Evaluation (:func:`evaluation_batches`) reads a split in
order, each problem once. All batches of a call have one shape, so that programs compile
once.
"""

import collections
import dataclasses
import itertools
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from passk_jax.data.orders import Order, part_of
from passk_jax.errors import InputError
from passk_jax.types import Problem, Prompts

Encode = Callable[[str], list[int]]

OVERLONG = ('drop', 'error')

# Prompts are padded to a multiple of the first number or, if longer than the second, to
# a multiple of that, but never beyond the limit. Meshes and kernels that split the
# tokens of long prompts need this.
_WIDTH_MULTIPLE, _LONG_WIDTH_MULTIPLE = 8, 128


@dataclasses.dataclass(frozen=True)
class Kept:
    """The problems whose prompts are short enough: ascending ``indices`` of ``source``.

    ``numbers`` has the row of each id. Every prompt is padded to ``width`` tokens.
    Batches in several orders may share one.
    """

    source: Sequence[Problem]
    encode: Encode
    indices: np.ndarray
    numbers: Mapping[int, int]
    num_dropped: int
    width: int

    def batch(self, rows: Sequence[int]) -> tuple[list[Problem], Prompts]:
        """Returns the problems and padded prompts of these rows of ``indices``."""
        problems = [self.source[int(self.indices[row])] for row in rows]
        tokens = np.zeros((len(problems), self.width), np.int32)
        lengths = np.zeros(len(problems), np.int32)
        for row, problem in enumerate(problems):
            ids = self.encode(problem.prompt)
            tokens[row, : len(ids)] = ids
            lengths[row] = len(ids)
        ids = np.array([problem.id for problem in problems], np.int32)
        return problems, Prompts(tokens, lengths, ids)


class _Counted:
    """Batches of kept problems.

    Attributes:
        num_problems: problems in an epoch or an evaluation, without too long ones.
        num_dropped: problems that were too long.
        prompt_width: S, the same in every batch.
    """

    def __init__(self, kept: Kept):
        self._kept = kept
        self.num_problems = len(kept.indices)
        self.num_dropped = kept.num_dropped
        self.prompt_width = kept.width


class Batches(_Counted, Sequence):
    """``batches[step]`` for any step >= 0; see :func:`make_batches`."""

    def __init__(
        self,
        kept: Kept,
        *,
        order: Order,
        mine: slice,
        chances: np.ndarray | None = None,
    ):
        super().__init__(kept)
        self._order, self._mine, self._chances = order, mine, chances

    def __len__(self) -> int:
        """Returns a huge number, because epochs repeat without end."""
        return sys.maxsize

    def __getitem__(self, step: int) -> tuple[list[Problem], Prompts]:
        if step < 0:
            raise IndexError(f'{step=} is negative')
        return self._kept.batch(self._order.rows(int(step), self._chances)[self._mine])

    def others(
        self, step: int, *, seed: Sequence[int]
    ) -> Iterator[tuple[list[Problem], Prompts, np.ndarray]]:
        """Goes through the problems that ``self[step]`` lacks, each problem once.

        The order is random, without replacement, and new for each step. Problems of
        ``self[step]`` fill up the last batch. Without other problems there is no batch.

        Args:
            step: at least 0.
            seed: determines the orders of all steps; use it for nothing else.

        Yields:
            Problems and prompts as in ``self[step]``, and a bool for each problem,
            False if it only fills up the batch.
        """
        own = self._order.rows(int(step), self._chances)
        others = self._order.others(int(step), seed=seed, chances=self._chances)
        while batch := list(itertools.islice(others, len(own))):
            is_other = np.arange(len(own)) < len(batch)
            batch = np.array([*batch, *own[: len(own) - len(batch)]])[self._mine]
            yield *self._kept.batch(batch), is_other[self._mine]

    def by_chance(self, chances: np.ndarray) -> 'Batches':
        """Batches of the same problems, drawn anew at each step without epochs.

        Args:
            chances: a positive weight for each problem of an epoch, by its number. A
                part's problems are drawn in proportion to them.
        """
        return Batches(self._kept, order=self._order, mine=self._mine, chances=chances)

    def numbers(self, problems: Sequence[Problem]) -> np.ndarray:
        """``[P]`` the numbers of problems among the ``num_problems`` of an epoch."""
        return np.array([self._kept.numbers[problem.id] for problem in problems])


def make_batches(
    kept: Kept,
    *,
    num_prompts: int,
    seed: int | Sequence[int],
    weights: Mapping[str, int] | None = None,
    process_index: int = 0,
    process_count: int = 1,
) -> Batches:
    """Makes shuffled batches, with a new order in each epoch.

    An epoch ends with its last whole batch: a problem that came twice in a batch would
    share its random keys. Each epoch leaves out different problems. Each part of a
    mixture has epochs of its own.

    Args:
        kept: the problems, from :func:`read_problems`.
        num_prompts: P, over all hosts.
        seed: determines the order; one number, or the experiment's seed and a purpose.
        weights: of a mixture, name of a part -> how many of any ``sum(weights)``
            problems are its own; a category begins with the name of its part.
        process_index: the index of this host, which gets its own rows of each batch.
        process_count: hosts that share a batch; 1: every host has all of it.

    Returns:
        Problems and prompts (numpy, ``[P / process_count, S]``) by step.

    Raises:
        ValueError: a batch takes more problems than there are, in all or of a part, or
            the hosts do not divide the batch.
    """
    if num_prompts < 1 or num_prompts % process_count:
        raise InputError(f'{num_prompts=} cannot be shared by {process_count=}')
    if not 0 <= process_index < process_count:
        raise InputError(f'{process_index=} is not below {process_count=}')
    if num_prompts > len(kept.indices):
        raise InputError(
            f'{num_prompts=} is more than the {len(kept.indices)} problems there are '
            f'({kept.num_dropped} were dropped as too long)'
        )
    local = num_prompts // process_count
    mine = slice(process_index * local, (process_index + 1) * local)
    order = Order(
        _parts(kept, weights),
        weights=weights or {'': 1},
        num_prompts=num_prompts,
        seed=[seed] if isinstance(seed, int) else seed,
    )
    return Batches(kept, order=order, mine=mine)


def _parts(kept: Kept, weights: Mapping[str, int] | None) -> dict[str, np.ndarray]:
    """Name of each part -> the rows of its problems; ``''`` if there are not parts."""
    if not weights:
        return {'': np.arange(len(kept.indices))}
    rows: dict[str, list[int]] = {name: [] for name in weights}
    for row, index in enumerate(kept.indices):
        rows[part_of(kept.source[int(index)].category)].append(row)
    return {name: np.array(each, int) for name, each in rows.items()}


class EvaluationBatches(_Counted):
    """Problems in order; can be iterated any number of times.

    Attributes:
        dropped: category -> problems that were too long.
    """

    def __init__(self, kept: Kept, *, batch_size: int):
        super().__init__(kept)
        self._batch_size = batch_size
        dropped = np.delete(np.arange(len(kept.source)), kept.indices)
        self.dropped = count_categories(kept.source[int(i)] for i in dropped)

    def __len__(self) -> int:
        return -(-self.num_problems // self._batch_size)

    def __iter__(self) -> Iterator[tuple[list[Problem], Prompts, int]]:
        for start in range(0, self.num_problems, self._batch_size):
            stop = min(start + self._batch_size, self.num_problems)
            # Repeats of the last problem fill the last batch.
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
    """Makes batches of the problems of a split, in order, each exactly once.

    Args:
        source, encode, max_prompt_tokens, overlong: as in :func:`read_problems`.
        batch_size: problems in every batch; repeats fill up the last one.
        num_problems: the size of a :func:`subset`, including too long ones; 0: all.

    Returns:
        Batches of problems, prompts (numpy, ``[batch_size, S]``) and the number of
        valid rows, which come first.

    Raises:
        ValueError: there are no problems, or fewer than ``num_problems``; or a prompt
            is empty or too long.
    """
    if batch_size < 1:
        raise InputError(f'{batch_size=} must be at least 1')
    problems = subset(source, num_problems)
    kept = read_problems(
        problems, encode, max_prompt_tokens=max_prompt_tokens, overlong=overlong
    )
    return EvaluationBatches(kept, batch_size=batch_size)


def count_categories(problems: Iterable[Problem]) -> dict[str, int]:
    """Category -> number of problems, in the order of their first ones."""
    return dict(collections.Counter(problem.category for problem in problems))


def subset(
    source: Sequence[Problem], num_problems: int, *, name: str = 'num_problems'
) -> Sequence[Problem]:
    """A fixed random subset, in which each category has its share of the problems.

    The same problems are chosen in every run, and a larger subset contains a smaller
    one. They stay in the order of the source.

    Args:
        source: the problems, by index.
        num_problems: size of the subset; 0: all.
        name: what the message calls that number.

    Raises:
        ValueError: there are fewer problems than ``num_problems``.
    """
    if not 0 <= num_problems <= len(source):
        raise InputError(
            f'{name}={num_problems} of the {len(source)} problems there are'
        )
    if not num_problems:
        return source
    categories = np.array([problem.category for problem in source])
    # Spread over [0, 1), each category's problems are as dense as it is large.
    places = np.zeros(len(source))
    for category in np.unique(categories):
        members = np.flatnonzero(categories == category)
        rng = np.random.default_rng(zlib.crc32(category.encode()))
        spread = (np.arange(len(members)) + 0.5) / len(members)
        places[rng.permutation(members)] = spread
    chosen = np.argsort(places, kind='stable')[:num_problems]
    return [source[int(index)] for index in np.sort(chosen)]


def read_problems(
    source: Sequence[Problem],
    encode: Encode,
    *,
    max_prompt_tokens: int,
    overlong: str,
) -> Kept:
    """Reads every problem, to know which prompts are short enough.

    Args:
        source: the problems, by index.
        encode: turns prompt text into tokens.
        max_prompt_tokens: the most tokens in a prompt.
        overlong: ``'drop'`` drops and counts longer prompts; ``'error'`` rejects them.

    Raises:
        ValueError: there are no problems, or a prompt is empty or too long.
    """
    if overlong not in OVERLONG:
        raise InputError(f'{overlong=} must be one of {list(OVERLONG)}')
    count = len(source)
    if not count:
        raise InputError('there are no problems: the split is empty')
    lengths, ids = np.zeros(count, np.int64), []
    for index in range(count):
        problem = source[index]
        ids.append(problem.id)
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
            'Dropped %d of %d prompts, which are longer than %d tokens',
            num_dropped,
            count,
            max_prompt_tokens,
        )
    longest = int(lengths[indices].max())
    long = longest > _LONG_WIDTH_MULTIPLE
    multiple = _LONG_WIDTH_MULTIPLE if long else _WIDTH_MULTIPLE
    width = min(-(-longest // multiple) * multiple, max_prompt_tokens)
    numbers = {ids[index]: row for row, index in enumerate(indices)}
    return Kept(source, encode, indices, numbers, num_dropped, width)
