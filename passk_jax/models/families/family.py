"""What makes a model family another one than its neighbours.

The transformer is one (transformer.py); a family is what its ``config.json`` means
and which of the parts the network has. One file a family, one line in table.py.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of decoders.

    Attributes:
        model_type: of ``config.json``.
        architecture: transformers' class, as ``config.json`` names it.
        qkv_bias: queries, keys and values have a bias.
        qk_norm: queries and keys are normalised, head by head, before they are turned.
        fixed: fields of ``config.json`` that are honoured only with this value.
        inert: fields without influence on logits, besides those of every family.
    """

    model_type: str
    architecture: str
    qkv_bias: bool
    qk_norm: bool
    fixed: Mapping[str, Any]
    inert: frozenset[str] = frozenset()
