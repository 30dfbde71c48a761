"""How a parameter is declared: its axes, its tensors in a checkpoint, and its stack.

Every module of the network has ``parameters(arch)``: a table with a row for each
parameter, in the order of the network. The table follows from the architecture alone.

The tensor name of a row declares the axes over which the parameter is stacked. Each
field in braces is a leading axis, and each tensor holds one entry. For example,

    model.layers.{layer}.mlp.experts.{expert}.up_proj.weight

are ``L * E`` tensors ``[F, D]`` of one parameter ``[L, E, D, F]``. A tensor may also
contain several parameters (:class:`Part`). Code that reads, writes, shards or splits a
parameter follows its row.
"""

import dataclasses
import functools
import itertools
import math
import string
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from passk_jax.errors import InputError
from passk_jax.models.master_weights import Axes

STACKS: Mapping[str, str | None] = {
    **{'layer': None, 'expert': 'experts'},
    # In the tower that reads pictures.
    **{'block': None, 'tap': None},
}
"""Name of an axis over which parameters may be stacked -> its logical axis."""

Place = tuple[int, ...]
"""A place in a stack: an index for each of its axes."""


Dims = tuple[tuple[int, ...], ...]
"""For each dimension of a tensor, the dimensions that it flattens, slowest first."""


class Part(NamedTuple):
    """The part of its tensors that belongs to a parameter.

    Attributes:
        dim: dimension after the stack along which a tensor joins several parameters;
            the tensor must not flatten it with others.
        index: the parameter's place among them.
        count: the number of these parameters, all of equal size.
    """

    dim: int
    index: int
    count: int


@dataclasses.dataclass(frozen=True)
class Parameter:
    """The declaration of a parameter.

    Attributes:
        tensor: name of its tensors in a checkpoint, with a field for each entry of
            :attr:`stack`.
        axes: logical axis of each dimension after the stack.
        dims: for each dimension of a tensor, the dimensions after the stack that it
            flattens, slowest first. ``((1, 2), (0,))``: ``[D, J, H]`` is stored as
            ``[J * H, D]``.
        decoded_in: dtype in which sampling reads it; ``''``: the working dtype.
        other_dims: an alternative layout in files, recognized by a tensor's shape;
            ``()``: none.
        part: the part of its tensors that belongs to it; ``None``: all.
    """

    tensor: str
    axes: Axes
    dims: Dims
    decoded_in: str = ''
    other_dims: Dims = ()
    part: Part | None = None

    def __post_init__(self):
        if unknown := [name for name in self.stack if name not in STACKS]:
            raise InputError(
                f'{self.tensor} is stacked over {unknown}, none of {list(STACKS)}'
            )

    @functools.cached_property
    def stack(self) -> tuple[str, ...]:
        """Names of the stacked axes, in order; entries of :data:`STACKS`."""
        pieces = string.Formatter().parse(self.tensor)
        return tuple(field for _, field, _, _ in pieces if field is not None)

    @property
    def array_axes(self) -> Axes:
        """Logical axis of each dimension, including the stack's."""
        return (*(STACKS[name] for name in self.stack), *self.axes)

    def read_in(self, dtype: str) -> str:
        """Returns the dtype in which sampling reads it; ``dtype`` is the default."""
        return self.decoded_in or dtype

    def within(self, prefix: str) -> 'Parameter':
        """Returns a copy whose tensor name begins with ``prefix``."""
        return dataclasses.replace(self, tensor=prefix + self.tensor)

    def tensor_at(self, place: Place) -> str:
        """Names the tensor at a place of the stack."""
        return self.tensor.format(**dict(zip(self.stack, place, strict=True)))

    def places(self, shape: tuple[int, ...]) -> Iterator[Place]:
        """Yields every place of the stack; ``shape`` is the parameter's shape."""
        return itertools.product(*map(range, shape[: len(self.stack)]))

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a tensor if the parameter has ``shape``."""
        inner = list(shape[len(self.stack) :])
        if self.part:
            inner[self.part.dim] *= self.part.count
        return tuple(math.prod(inner[d] for d in group) for group in self.dims)

    @property
    def layouts(self) -> tuple['Parameter', ...]:
        """A row for each layout in files; the layout that we write comes first."""
        other = dataclasses.replace(self, dims=self.other_dims, other_dims=())
        return (self, other) if self.other_dims else (self,)


Table = Mapping[str, Parameter]
"""The parameters of a module by name."""


def kernel(tensor: str, *axes: str | None, inputs: int = 1) -> Parameter:
    """Declares a linear map with ``inputs`` input axes; torch stores ``[out, in]``."""
    dims = tuple(range(len(axes)))
    return Parameter(tensor, axes, (dims[inputs:], dims[:inputs]))


def vector(tensor: str, *axes: str | None) -> Parameter:
    """Declares a bias or a scale, which torch stores flat."""
    return Parameter(tensor, axes, (tuple(range(len(axes))),))


def norm_scale(tensor: str, *axes: str | None, kind: str) -> Parameter:
    """Declares the scale of a norm, which sampling reads as the learner does.

    ``kind`` is ``arch.norm_scale``; all but ``'cast'`` multiply in float32.
    """
    row = vector(tensor, *axes)
    decoded_in = '' if kind == 'cast' else 'float32'
    return dataclasses.replace(row, decoded_in=decoded_in)


def nested(name: str, table: Table, *, tensors: str = '') -> dict[str, Parameter]:
    """Returns the table of a module as a part of its parent's table.

    Args:
        name: the parent's attribute for the module.
        table: the parameters of the module.
        tensors: the prefix of their tensors' names.
    """
    return {f'{name}.{inner}': row.within(tensors) for inner, row in table.items()}


def tensors_in_order(
    table: Table, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, list[str], Place]]:
    """Yields each tensor, its parameters and its place, in the order of the network.

    All tensors of a layer come before those of the next.

    Args:
        table: the parameters.
        shapes: shape of each parameter.
    """
    for _, rows in itertools.groupby(table.items(), lambda item: item[1].stack[:1]):
        tensors = [
            (row.tensor_at(place), name, place)
            for name, row in rows
            for place in row.places(shapes[name])
        ]
        tensors.sort(key=lambda tensor: tensor[2][:1])
        # Parameters that share a tensor follow each other in the table.
        for _, parts in itertools.groupby(tensors, lambda x: x[::2]):
            (tensor, name, place), *more = parts
            yield tensor, [name, *(name for _, name, _ in more)], place


def layers_apart(
    name: str, row: Parameter, num_layers: int
) -> Iterator[tuple[str, Place]]:
    """Yields the name and place of each layer's part of a parameter.

    A layer's part of ``'layers.mlp.up.kernel'`` is ``'layers.3.mlp.up.kernel'``. A
    parameter outside the layers is one part, at the place ``()``.
    """
    if row.stack[:1] != ('layer',):
        yield name, ()
        return
    stack, _, inner = name.partition('.')
    for layer in range(num_layers):
        yield f'{stack}.{layer}.{inner}', (layer,)


def axes_of_names(table: Table, num_layers: int) -> dict[str, Axes]:
    """Maps the name of each parameter, and of each layer's part, to logical axes."""
    axes = {name: row.array_axes for name, row in table.items()}
    for name, row in table.items():
        for part, place in layers_apart(name, row, num_layers):
            axes[part] = row.array_axes[len(place) :]
    return axes


def axes_at(path: str, axes: Mapping[str, Axes]) -> Axes:
    """Returns the axes of the name that a path ends in.

    Raises:
        InputError: it ends in none of the names.
    """
    parts = path.split('.')
    for start in range(len(parts)):
        if (name := '.'.join(parts[start:])) in axes:
            return axes[name]
    raise InputError(f'{path} ends in no name that has axes; known are {list(axes)}')
