"""How the tests of both samplers call them."""

import dataclasses
from typing import Any

from passk_jax.config import SamplingOptions, sampling_options


def keywords(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of ``sample``, with its options given one by one, as it takes them."""
    names = [field.name for field in dataclasses.fields(SamplingOptions)]
    options = sampling_options(**{n: settings[n] for n in names if n in settings})
    remaining = {name: x for name, x in settings.items() if name not in names}
    return {**remaining, 'options': options}
