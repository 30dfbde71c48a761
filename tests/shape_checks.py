"""Calls a function with its jaxtyping annotations checked.

typeguard 4 rewrites the source and parses the shape strings as Python, which fails on
``'*P'``; jaxtyping's own isinstance is all that is needed.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any

from jaxtyping import jaxtyped


def call_checked(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls it, asserting every annotation under one binding of the letters."""
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    with jaxtyped('context'):
        for name, value in bound.arguments.items():
            _check(name, value, signature.parameters[name].annotation)
        result = function(*args, **kwargs)
        _check('return', result, signature.return_annotation)
    return result


def _check(name: str, value: Any, annotation: Any) -> None:
    if typing.get_origin(annotation) is tuple:
        for item, of_item in zip(value, typing.get_args(annotation), strict=True):
            _check(name, item, of_item)
    elif dataclasses.is_dataclass(annotation):
        assert isinstance(value, annotation)
        for field in dataclasses.fields(annotation):
            if (item := getattr(value, field.name)) is not None:
                _check(f'{name}.{field.name}', item, field.type)
    else:
        assert isinstance(value, annotation), f'{name}: {value!r} is no {annotation}'
