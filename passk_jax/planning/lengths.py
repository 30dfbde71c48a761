"""Distributions of response lengths, for a simulated step.

:func:`read` reads ``constant:979``, ``lognormal:979``, or a directory ``rollouts/`` of
a run, whose lengths it resamples. 979 is the mean after the limit has cut lengths.
``lognormal:979,0.8`` also sets the deviation of the logarithm, which is 1 by default.
"""

import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Sequence

import numpy as np
from scipy import special

from passk_jax.errors import InputError

_SEED = 0


@dataclasses.dataclass(frozen=True)
class Lengths:
    """A distribution of lengths up to a limit.

    Attributes:
        name: its name in reports.
        limit: the most tokens of a response.
        values: equally likely lengths, int64.
    """

    name: str
    limit: int
    values: np.ndarray

    @property
    def mean(self) -> float:
        """Mean tokens of a response."""
        return float(self.values.mean())

    def draw(self, *shape: int) -> np.ndarray:
        """Draws lengths; every call draws the same."""
        return np.random.default_rng(_SEED).choice(self.values, shape)


def read_all(text: str, *, limit: int) -> list[Lengths]:
    """Reads distributions, separated by semicolons; ``''``: one, see :func:`read`.

    Raises:
        InputError: one is empty, or :func:`read` raises it.
    """
    parts = [part.strip() for part in text.split(';')]
    if len(parts) > 1 and '' in parts:
        raise InputError(f'lengths={text!r}: one of these distributions is empty')
    return [read(part, limit=limit) for part in parts]


def read(text: str, *, limit: int) -> Lengths:
    """Reads a distribution; ``''``: every response is as long as the limit.

    Raises:
        InputError: the text is not a distribution, or a length is not in [1, limit].
    """
    if not text:
        return Lengths(f'all of {limit} tokens', limit, np.array([limit]))
    if match := re.fullmatch(r'constant:(\d+)', text):
        length = _within(text, float(match[1]), limit)
        return Lengths(f'all of {length:.0f} tokens', limit, np.array([int(length)]))
    number = r'(\d+(?:\.\d+)?)'
    if match := re.fullmatch(rf'lognormal:{number}(?:,{number})?', text):
        mean, sigma = _within(text, float(match[1]), limit), float(match[2] or 1)
        if not sigma or not 1 < mean < limit:
            raise InputError(
                f'lengths={text!r}: the mean must lie between 1 and {limit}, and the '
                'deviation above 0'
            )
        name = f'log-normal, mean {mean:g}, deviation of the logarithm {sigma:g}'
        return Lengths(name, limit, _lognormal(mean, sigma, limit))
    if pathlib.Path(text).expanduser().is_dir():
        files = sorted(pathlib.Path(text).expanduser().glob('step_*.jsonl'))
        recorded = _recorded(files)
        return Lengths(f'those of {text}', limit, np.minimum(recorded, limit))
    raise InputError(
        f'lengths={text!r} must be constant:TOKENS, lognormal:MEAN, '
        'lognormal:MEAN,DEVIATION, a directory rollouts/ of a run, or several of these '
        'with semicolons between them'
    )


def _within(text: str, length: float, limit: int) -> float:
    if not 1 <= length <= limit:
        raise InputError(f'lengths={text!r}: {length:g} must lie in [1, {limit}]')
    return length


def _lognormal(mean: float, sigma: float, limit: int) -> np.ndarray:
    """Returns evenly spaced quantiles, whose mean under the limit is ``mean``."""
    normal = special.ndtri((np.arange(4096) + 0.5) / 4096)

    def lengths(mu: float) -> np.ndarray:
        return np.clip(np.ceil(np.exp(mu + sigma * normal)), 1, limit)

    low, high = -10 * sigma, math.log(limit) + 10 * sigma
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lengths(middle).mean() < mean else (low, middle)
    return lengths(high).astype(int)


def _recorded(files: Sequence[pathlib.Path]) -> np.ndarray:
    """Reads the lengths of recorded rollouts."""
    try:
        lengths = [
            int(json.loads(line)['length'])
            for file in files
            for line in file.read_text('utf-8').split('\n')
            if line
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f'{files[0].parent} has no rollouts: {error!r}') from error
    if not lengths or min(lengths) < 1:
        raise InputError(f'{files} have no rollouts with a length')
    return np.array(lengths)
