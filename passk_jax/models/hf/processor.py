"""Reads how a model wants its pictures, from its ``preprocessor_config.json``."""

from collections.abc import Mapping
from typing import Any

from passk_jax.data.pictures import Processor
from passk_jax.errors import InputError, prefixed
from passk_jax.models.arch import Vision
from passk_jax.models.hf.config import read_json, source_directory

PROCESSOR = 'preprocessor_config.json'
# Field -> the only value that is supported, which an absent field has. 3 is bicubic.
_FIXED: Mapping[str, Any] = {
    **{'do_resize': True, 'do_rescale': True, 'do_normalize': True},
    **{'do_convert_rgb': True, 'resample': 3},
}
_EDGES = {'min_pixels': 'shortest_edge', 'max_pixels': 'longest_edge'}


def read_processor(source: str, vision: Vision, *, max_pixels: int = 0) -> Processor:
    """Reads the processor of a model.

    Args:
        source: a directory or a hub name.
        vision: the tower, whose patches the file must describe.
        max_pixels: a smaller limit of a resized picture; 0: that of the file.

    Raises:
        InputError: no such file, or a field that is absent or not supported.
    """
    path = source_directory(source, [PROCESSOR]) / PROCESSOR
    fields = read_json(path)
    with prefixed(path):
        fixed = {
            **_FIXED,
            'patch_size': vision.patch_size,
            'merge_size': vision.merge_size,
            'temporal_patch_size': vision.frames,
        }
        for name, only in fixed.items():
            if fields.get(name, only) != only:
                raise InputError(f'{name}={fields[name]!r}; only {only!r} is supported')
        factor = fields.get('rescale_factor', 1 / 255)
        if type(factor) not in (int, float) or abs(factor * 255 - 1) > 1e-6:
            raise InputError(f'rescale_factor must be 1 / 255, not {factor!r}')
        least, most = (_pixels(fields, name) for name in _EDGES)
        if max_pixels:
            least, most = min(least, max_pixels), min(most, max_pixels)
        mean, std = (_colors(fields, name) for name in ('image_mean', 'image_std'))
        if not min(std) > 0:
            raise InputError(f'image_std={list(std)} must be positive')
        return Processor(vision.patch_size, vision.merge_size, least, most, mean, std)


def _pixels(fields: Mapping[str, Any], name: str) -> int:
    """Reads a limit, which has a name of its own in older files."""
    size = fields.get('size')
    stated = fields.get(name)
    if stated is None and isinstance(size, Mapping):
        stated = size.get(_EDGES[name], size.get(name))
    if type(stated) is not int or stated < 1:
        raise InputError(f'{name} or size.{_EDGES[name]}={stated!r} must be pixels')
    return stated


def _colors(fields: Mapping[str, Any], name: str) -> tuple[float, ...]:
    """Reads a number for each color."""
    stated = fields.get(name)
    numbers = stated if isinstance(stated, list) else []
    if len(numbers) != 3 or not all(type(x) in (int, float) for x in numbers):
        raise InputError(f'{name}={stated!r} must be three numbers')
    return tuple(map(float, numbers))
