"""The options of the sampler, declared once for all sections and modules."""

import dataclasses
from typing import Any

from passk_jax.config.ranges import count, fraction, ranged, section

ONE_TOKEN = {'temperature': 0, 'top_k': 1, 'min_p': 1}
"""Options and the value that leaves only the most probable token."""


@section
class SamplingOptions:
    """Options that shape the distribution from which each token is drawn.

    The sections of training and evaluation have these fields, ``evaluate`` has a flag
    for each, and the sampler, ``plan`` and ``export`` read them from here. To add an
    option, add a field here and use it in ``sampling/distribution.py``. A run that is
    older than an option resumes with the option off.

    Attributes:
        temperature: divides the logits; 0 takes the most probable token.
        top_p: keeps the smallest set of most probable tokens that has at least this
            share of the probability that ``top_k`` leaves; 1 keeps all.
        top_k: keeps this many most probable tokens; 0 keeps all.
        min_p: keeps the tokens at least this many times as probable as the most
            probable one; 0 keeps all.
    """

    temperature: float = ranged(
        'be 0 (greedy) or lie in [1e-30, 1e30]',
        # Beyond these bounds float32 cannot represent T or 1 / T.
        lambda x: x == 0 or 1e-30 <= x <= 1e30,
        off=1.0,
    )
    top_p: float = ranged(
        'lie in [1e-6, 1]',
        # A smaller share would always keep a single token, which is greedy.
        lambda x: 1e-6 <= x <= 1,
        off=1.0,
    )
    top_k: int = count(0, off=0)
    min_p: float = fraction(off=0.0)

    @property
    def options(self) -> 'SamplingOptions':
        """The options without the fields that a section adds."""
        names = (field.name for field in dataclasses.fields(SamplingOptions))
        return SamplingOptions(**{name: getattr(self, name) for name in names})

    @property
    def greedy(self) -> bool:
        """Whether the sampler takes the most probable token, without randomness."""
        return self.temperature == 0

    def one_token_by(self, num_tokens: int) -> str:
        """Returns the option that leaves only the most probable token; ``''``: none.

        Args:
            num_tokens: tokens of the vocabulary. The most probable one has at least the
                share 1 / num_tokens, which is enough for so small a ``top_p``.
        """
        only = {name: getattr(self, name) == value for name, value in ONE_TOKEN.items()}
        only |= {'top_p': self.top_p * num_tokens <= 1}
        return next((name for name, is_only in only.items() if is_only), '')

    @property
    def truncates(self) -> bool:
        """Whether some tokens may be cut from the distribution."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


def sampling_options(**changes: Any) -> SamplingOptions:
    """Returns the options with these values and all others off.

    >>> sampling_options(top_k=3)
    SamplingOptions(temperature=1.0, top_p=1.0, top_k=3, min_p=0.0)
    """
    off = {f.name: f.metadata['off'] for f in dataclasses.fields(SamplingOptions)}
    return SamplingOptions(**off | changes)
