"""Low-rank adapters (LoRA, arXiv:2106.09685) of matrices that no step changes.

The matrix ``W`` of a linear map becomes ``W + alpha / rank * A B``, where ``A`` has
``rank`` columns and ``B`` as many rows. ``B`` is 0 at first, so a run begins with the
base. Names, layouts and scale are those of the library PEFT.

An adapter adds two rows to the table of parameters, next to the row of its matrix.
Shapes, shardings, checkpoints and files follow from the table. Learner and sampler
apply adapters beside their matrix (layers.py), so no sum is rounded to bfloat16.
Parameters without adapters are those of the base.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
from jax import numpy as jnp

from passk_jax.config import LoraConfig
from passk_jax.errors import InputError
from passk_jax.models.parameters import Parameter, Table, kernel
from passk_jax.models.products import choose_precision

ALL_LINEAR = 'all-linear'
"""The target that stands for all linear maps of the layers, as in PEFT."""
A, B = 'lora_a', 'lora_b'
"""Last parts of the names of an adapter's two parameters."""

Array = TypeVar('Array')


@dataclasses.dataclass(frozen=True)
class Lora:
    """The adapters of a network.

    Attributes:
        rank: columns of A and rows of B, at least 1.
        alpha: ``alpha / rank`` is the factor of the product of A and B.
        targets: names of adapted matrices in a checkpoint, or ends of such names
            (``'q_proj'``, ``'self_attn.q_proj'``), or :data:`ALL_LINEAR`.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]

    def __post_init__(self):
        if self.rank < 1 or self.alpha <= 0 or not self.targets:
            raise InputError(f'{self} trains nothing: rank and alpha must be positive')

    @classmethod
    def configured(cls, config: LoraConfig) -> 'Lora | None':
        """Makes the adapters of a configuration; ``None`` without any."""
        if not config.rank:
            return None
        targets = ','.join(config.targets).split(',')
        return cls(config.rank, config.alpha, tuple(targets))

    @property
    def scale(self) -> float:
        """Factor of the product of A and B."""
        return self.alpha / self.rank

    def adapts(self, row: Parameter) -> bool:
        """Returns whether the parameter of a row has an adapter."""
        ends = tuple(f'.{target}' for target in self.targets)
        return _is_adaptable(row) and (
            ALL_LINEAR in self.targets or f'.{_module(row)}'.endswith(ends)
        )

    def check(self, table: Table) -> None:
        """Raises InputError, with the choices, if a target names no matrix of a table.

        Experts have no adapters, because PEFT has another layout for them. A router has
        none, because rounding would send a token to other experts. The token table and
        the head have none either.
        """
        rows = [row for row in table.values() if _is_adaptable(row)]
        for target in self.targets:
            alone = dataclasses.replace(self, targets=(target,))
            if not any(map(alone.adapts, rows)):
                choices = [_module(row).rpartition('.')[2] for row in rows]
                raise InputError(
                    f'model.lora.targets names {target!r}, none of {choices} and not '
                    f'{ALL_LINEAR!r}; experts, routers, the token table and the head '
                    'have no adapters'
                )


def adapters(row: Parameter, rank_in: int) -> tuple[Parameter, Parameter]:
    """Declares A and B of a matrix with ``rank_in`` input axes."""
    inputs, outputs = row.axes[:rank_in], row.axes[rank_in:]
    module = row.tensor.removesuffix('weight')
    return (
        kernel(f'{module}lora_A.weight', *inputs, None, inputs=rank_in),
        kernel(f'{module}lora_B.weight', None, *outputs),
    )


def with_adapters(table: Table, lora: Lora | None) -> Table:
    """Adds the rows of adapters to a table, each after the row of its matrix.

    Raises:
        InputError: a target names no matrix of the table.
    """
    if lora is None:
        return dict(table)
    lora.check(table)
    rows = {}
    for name, row in table.items():
        rows[name] = row
        if lora.adapts(row):
            rank_in = len(row.dims[1])
            rows |= zip(adapter_names(name), adapters(row, rank_in), strict=True)
    return rows


def adapter_names(name: str) -> tuple[str, str]:
    """Names the parameters A and B of the matrix ``name``."""
    module = name.removesuffix('kernel')
    return f'{module}{A}', f'{module}{B}'


def is_adapter(name: str) -> bool:
    """Returns whether a parameter belongs to an adapter."""
    return name.endswith((f'.{A}', f'.{B}'))


def without_adapters(params: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the parameters of the base."""
    return {name: x for name, x in params.items() if not is_adapter(name)}


def merge(
    params: Mapping[str, jax.Array], lora: Lora | None, dtype: Any
) -> dict[str, jax.Array]:
    """Adds ``scale * A B`` to each matrix, in float32; the sums get dtype ``dtype``."""
    merged = without_adapters(params)
    for name in merged:
        a, b = adapter_names(name)
        if lora is not None and a in params:
            merged[name] = _merge_stack(
                params[name], params[a], params[b], lora.scale, dtype
            )
    return merged


def _merge_layers(
    x: jax.Array, a: jax.Array, b: jax.Array, scale: float, dtype: Any
) -> jax.Array:
    def merge_layer(layer: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        x, a, b = (y.astype(jnp.float32) for y in layer)
        product = jnp.tensordot(a, b, axes=1, precision=choose_precision(a, b))
        return (x + scale * product).astype(dtype)

    return jax.lax.map(merge_layer, (x, a, b))


_merge_stack = jax.jit(_merge_layers, static_argnums=(3, 4))


def _module(row: Parameter) -> str:
    """Names a row's matrix in a checkpoint, without its layer."""
    return row.tensor.removesuffix('.weight').rpartition('}.')[2]


def _is_adaptable(row: Parameter) -> bool:
    is_matrix = len(row.dims) == 2 and 'vocab' not in row.axes
    return is_matrix and 'expert' not in row.stack and not row.decoded_in
