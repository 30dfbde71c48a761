"""Batches of prompts from a random-access source of problems.

    source -> length limit -> shuffle by epoch -> batch -> tokens

Training (:func:`make_batches`) follows the orders of :mod:`passk_jax.data.orders`:
``batches[step]`` is a pure function of the step, the seed and the source, so a resumed
run needs no iterator state. Evaluation (:func:`evaluation_batches`) reads each problem
of a split once, in order. All batches of a call have one shape, so programs compile
once.
"""

import collections
import dataclasses
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from absl import logging

from passk_jax.data.orders import Order, part_of
from passk_jax.data.pictures import Pictured, PictureReader
from passk_jax.data.problems import check_problem
from passk_jax.errors import InputError, prefixed
from passk_jax.types import Problem, Prompts

Encode = Callable[[Problem], list[int]]
Overlong = Literal['drop', 'error']

# Prompts are padded to a multiple of the first number, but those longer than the second
# to a multiple of the second, and never past the limit. Meshes and kernels that split
# long prompts need this.
_WIDTH_MULTIPLE, _LONG_WIDTH_MULTIPLE = 8, 128


class PromptBatch(NamedTuple):
    """P problems, and their prompts as token arrays on the host."""

    problems: list[Problem]
    prompts: Prompts[np.ndarray]


@dataclasses.dataclass(frozen=True)
class TokenizedProblems:
    """The problems whose prompts are short enough, each tokenized once.

    Several objects that make batches may share it.

    Attributes:
        source: all problems, by index.
        indices: ascending indices of the problems that are short enough; a *row* is a
            position in this array.
        prompts: the int32 prompt tokens of each row.
        row_of_id: problem id -> row.
        num_dropped: number of problems that were too long.
        width: S, the padded width of every prompt.
        pictured: the pictures; ``None``: no problem has one.
    """

    source: Sequence[Problem]
    indices: np.ndarray
    prompts: Sequence[np.ndarray]
    row_of_id: Mapping[int, int]
    num_dropped: int
    width: int
    pictured: Pictured | None = None

    def batch(self, rows: Sequence[int] | np.ndarray) -> PromptBatch:
        """Returns the problems of these rows with their padded prompts."""
        problems = [self.source[int(self.indices[row])] for row in rows]
        tokens = np.zeros((len(problems), self.width), np.int32)
        prompts = [self.prompts[int(row)] for row in rows]
        for padded, prompt in zip(tokens, prompts, strict=True):
            padded[: len(prompt)] = prompt
        lengths = np.array([len(prompt) for prompt in prompts], np.int32)
        ids = np.array([problem.id for problem in problems], np.int32)
        batch = Prompts(tokens, lengths, ids)
        if self.pictured is not None:
            batch = self.pictured.add_to(batch, problems, [int(row) for row in rows])
        return PromptBatch(problems, batch)


@dataclasses.dataclass(frozen=True, eq=False)
class Batches:
    """``batches[step]`` for any step >= 0; see :func:`make_batches`.

    ``chances`` are the weights of :meth:`draw_by_chance`; ``None``: epochs.
    """

    tokenized: TokenizedProblems
    order: Order
    chances: np.ndarray | None = None

    @property
    def num_problems(self) -> int:
        """The number of problems of an epoch, without those too long."""
        return len(self.tokenized.indices)

    def __getitem__(self, step: int) -> PromptBatch:
        if step < 0:
            raise IndexError(f'{step=} is negative')
        return self.tokenized.batch(self.order.rows(int(step), self.chances))

    def draw_others(
        self, step: int, *, seed: Sequence[int]
    ) -> Iterator[tuple[PromptBatch, np.ndarray]]:
        """Iterates over the problems that ``self[step]`` lacks, each once.

        The order is random and new for each step. Problems of ``self[step]`` pad the
        last batch. If the step has all problems, there is no batch.

        Args:
            step: at least 0.
            seed: seed of the orders of all steps; use it for nothing else.

        Yields:
            A batch like ``self[step]``, and a bool for each problem: False for padding.
        """
        of_step = self.order.rows(int(step), self.chances)
        remaining = self.order.draw_others(int(step), seed=seed, chances=self.chances)
        while rows := list(itertools.islice(remaining, len(of_step))):
            filled = [*rows, *of_step[: len(of_step) - len(rows)]]
            yield self.tokenized.batch(filled), np.arange(len(of_step)) < len(rows)

    def draw_by_chance(self, chances: np.ndarray) -> 'Batches':
        """Returns batches drawn with these weights at each step, without epochs.

        Args:
            chances: a positive weight for each problem of an epoch, by its number. A
                part draws its problems in proportion to them.
        """
        return dataclasses.replace(self, chances=chances)

    def numbers(self, problems: Sequence[Problem]) -> np.ndarray:
        """Returns the numbers ``[P]`` of problems among the problems of an epoch."""
        return np.array([self.tokenized.row_of_id[p.id] for p in problems])


def make_batches(
    tokenized: TokenizedProblems,
    *,
    num_prompts: int,
    seed: int | Sequence[int],
    weights: Mapping[str, int] | None = None,
    name: str = 'train.num_prompts',
) -> Batches:
    """Makes shuffled batches, with a new order in each epoch.

    An epoch ends with its last whole batch, because a batch with a problem twice would
    use its random keys twice. Each epoch leaves out different problems. Each part of a
    mixture has its own epochs.

    Args:
        tokenized: the problems, from :func:`read_problems`.
        num_prompts: P.
        seed: seed of the order: a number, or the experiment's seed and a purpose.
        weights: for a mixture, name of each part -> its number of problems among
            ``sum(weights)``; a category begins with the name of its part.
        name: the setting that P is, for messages.

    Returns:
        Problems and prompts (numpy, ``[P, S]``) by step.

    Raises:
        InputError: a batch needs more problems than there are, in total or in a part.
    """
    if num_prompts < 1:
        raise InputError(f'{name}={num_prompts} must be positive')
    if num_prompts > len(tokenized.indices):
        raise InputError(
            f'{name}={num_prompts} is more than the {len(tokenized.indices)} problems '
            f'there are ({tokenized.num_dropped} were dropped as too long)'
        )
    with prefixed(f'{name}={num_prompts}'):
        order = Order(
            _parts(tokenized, weights),
            weights=weights or {'': 1},
            num_prompts=num_prompts,
            seed=[seed] if isinstance(seed, int) else seed,
        )
    return Batches(tokenized, order)


def _parts(
    tokenized: TokenizedProblems, weights: Mapping[str, int] | None
) -> dict[str, np.ndarray]:
    """Returns each part's rows by name; without weights, ``''`` is the only part."""
    if not weights:
        return {'': np.arange(len(tokenized.indices))}
    rows: dict[str, list[int]] = {name: [] for name in weights}
    for row, index in enumerate(tokenized.indices):
        rows[part_of(tokenized.source[int(index)].category)].append(row)
    return {name: np.array(part_rows, int) for name, part_rows in rows.items()}


class EvaluationBatches:
    """Problems in order; ``dropped`` counts those that were too long by category."""

    def __init__(self, tokenized: TokenizedProblems, *, batch_size: int):
        self.tokenized, self._batch_size = tokenized, batch_size
        self.num_problems = len(tokenized.indices)
        self.num_dropped, source = tokenized.num_dropped, tokenized.source
        dropped = np.delete(np.arange(len(source)), tokenized.indices)
        self.dropped = count_categories(source[int(i)] for i in dropped)

    def __len__(self) -> int:
        return -(-self.num_problems // self._batch_size)

    def __iter__(self) -> Iterator[tuple[PromptBatch, int]]:
        for start in range(0, self.num_problems, self._batch_size):
            stop = min(start + self._batch_size, self.num_problems)
            # Repeats of the last problem fill the last batch.
            rows = np.minimum(np.arange(start, start + self._batch_size), stop - 1)
            yield self.tokenized.batch(rows), stop - start


def evaluation_batches(
    source: Sequence[Problem],
    encode: Encode,
    *,
    batch_size: int | Callable[[TokenizedProblems], int],
    num_problems: int,
    max_prompt_tokens: int,
    overlong: Overlong,
    reader: PictureReader | None = None,
) -> EvaluationBatches:
    """Makes batches of a split's problems, in order, each exactly once.

    Args:
        source, encode, max_prompt_tokens, overlong, reader: as in
            :func:`read_problems`.
        batch_size: problems per batch, or a function that chooses it; repeated problems
            pad the last batch.
        num_problems: size of the :func:`subset`, before the length limit; 0 is all.

    Returns:
        Batches, each with the number of its valid rows, which come first.

    Raises:
        InputError: there are no problems, or fewer than ``num_problems``; or a prompt
            is empty or too long.
    """
    problems = subset(source, num_problems)
    tokenized = read_problems(
        problems,
        encode,
        max_prompt_tokens=max_prompt_tokens,
        overlong=overlong,
        reader=reader,
    )
    if callable(batch_size):
        batch_size = batch_size(tokenized)
    return EvaluationBatches(tokenized, batch_size=batch_size)


def count_categories(problems: Iterable[Problem]) -> dict[str, int]:
    """Counts the problems of each category, in order of appearance."""
    return dict(collections.Counter(problem.category for problem in problems))


def subset(
    source: Sequence[Problem], num_problems: int, *, name: str = 'num_problems'
) -> Sequence[Problem]:
    """Returns a fixed random subset that keeps the categories' proportions.

    Every run gets the same subset, and a larger subset contains a smaller one. The
    problems keep the order of the source.

    Args:
        source: the problems, by index.
        num_problems: size of the subset; 0 is all.
        name: name of this number in messages.

    Raises:
        InputError: there are fewer problems than ``num_problems``.
    """
    if not 0 <= num_problems <= len(source):
        raise InputError(
            f'{name}={num_problems} of the {len(source)} problems there are'
        )
    if not num_problems:
        return source
    categories = np.array([problem.category for problem in source])
    # Spread each category evenly over [0, 1), so that any prefix keeps the proportions.
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
    overlong: Overlong,
    reader: PictureReader | None = None,
) -> TokenizedProblems:
    """Reads and tokenizes every problem.

    Args:
        source: the problems, by index.
        encode: converts a problem's prompt to tokens.
        max_prompt_tokens: the most tokens of a prompt.
        overlong: ``'drop'`` drops and counts longer prompts; ``'error'`` rejects them.
        reader: reads the problems' pictures; ``None``: a problem may have none.

    Raises:
        InputError: there are no problems, one is no ``Problem``, two have one id, a
            prompt is empty or too long, or a picture cannot be read.
    """
    if not len(source):
        raise InputError('there are no problems: the split is empty')
    reader = reader or PictureReader()
    indices, prompts, grids, row_of_id, shortest = [], [], [], {}, None
    for index in range(len(source)):
        problem = source[index]
        check_problem(problem, f'the source, at index {index},')
        tokens, of_pictures = reader.expand(problem, encode(problem))
        if not len(tokens):
            raise InputError(f'the prompt of problem {problem.id} has no tokens')
        shortest = min(shortest or len(tokens), len(tokens))
        if _is_overlong(problem, len(tokens), max_prompt_tokens, overlong):
            continue
        if problem.id in row_of_id:
            raise InputError(f'two problems of the split have the id {problem.id}')
        row_of_id[problem.id] = len(indices)
        indices.append(index)
        prompts.append(tokens)
        grids.append(of_pictures)
    if not indices:
        raise InputError(
            f'all {len(source)} prompts are longer than {max_prompt_tokens=}; the '
            f'shortest has {shortest} tokens'
        )
    if num_dropped := len(source) - len(indices):
        logging.warning(
            'Dropped %d of %d prompts, which are longer than %d tokens',
            *(num_dropped, len(source), max_prompt_tokens),
        )
    return TokenizedProblems(
        source=source,
        indices=np.array(indices),
        prompts=prompts,
        row_of_id=row_of_id,
        num_dropped=num_dropped,
        width=_padded_width(max(map(len, prompts)), max_prompt_tokens),
        pictured=Pictured(reader, grids) if any(grids) else None,
    )


def _is_overlong(
    problem: Problem, num_tokens: int, max_prompt_tokens: int, overlong: Overlong
) -> bool:
    """Returns whether to drop a prompt; InputError if it is an error."""
    is_overlong = num_tokens > max_prompt_tokens
    if is_overlong and overlong == 'error':
        message = f'the prompt of problem {problem.id} has {num_tokens} tokens'
        raise InputError(f'{message}, more than {max_prompt_tokens=}')
    return is_overlong


def _padded_width(longest: int, limit: int) -> int:
    """Returns S: the longest prompt, rounded up to a multiple within the limit."""
    is_long = longest > _LONG_WIDTH_MULTIPLE
    multiple = _LONG_WIDTH_MULTIPLE if is_long else _WIDTH_MULTIPLE
    return min(-(-longest // multiple) * multiple, limit)
