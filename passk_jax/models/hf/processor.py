"""Reads and writes ``preprocessor_config.json``: how pictures become patches.

transformers 5 saves these fields as ``image_processor`` of ``processor_config.json``.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from passk_jax.data.pictures import Processor
from passk_jax.errors import InputError, prefixed
from passk_jax.models.arch import Vision
from passk_jax.models.hf.config import read_json, source_directory

PROCESSOR = 'preprocessor_config.json'
_ALL = 'processor_config.json'
FILES = (PROCESSOR, _ALL)
"""Files that may describe a model's processor."""
# Field -> the only supported value, also of an absent field. 3 is bicubic.
_FIXED: Mapping[str, Any] = {
    **{'do_resize': True, 'do_rescale': True, 'do_normalize': True},
    **{'do_convert_rgb': True, 'resample': 3},
}
# Fields that the processors of Qwen's models have and do not need.
_OFF = ('crop_size', 'do_center_crop', 'do_pad', 'pad_size')
# Fields that change no patch: names of classes, layouts of arrays, and settings of
# other processors.
_INERT = frozenset(
    {
        *('_processor_class', 'auto_map', 'feature_extractor_type'),
        *('image_processor_type', 'processor_class', 'video_processor_type'),
        *('data_format', 'default_to_square', 'device', 'disable_grouping'),
        *('image_seq_length', 'input_data_format', 'return_tensors'),
        *('transformers_version', '_name_or_path'),
    }
)
_EDGES = {'min_pixels': 'shortest_edge', 'max_pixels': 'longest_edge'}


# The limit of a resized picture in Qwen3-VL.
_MOST_PIXELS = 16_777_216


def new_processor(vision: Vision, *, max_pixels: int = 0) -> Processor:
    """Makes the processor of a policy made from scratch.

    Args:
        vision: the tower.
        max_pixels: the limit of a resized picture; 0: the limit of Qwen3-VL.
    """
    token = (vision.patch_size * vision.merge_size) ** 2
    half = (0.5, 0.5, 0.5)
    most = max_pixels or _MOST_PIXELS
    return Processor(vision.patch_size, vision.merge_size, token, most, half, half)


def processor_fields(processor: Processor, vision: Vision) -> dict[str, Any]:
    """Makes the ``preprocessor_config.json`` that :func:`read_processor` reads."""
    limits = processor.min_pixels, processor.max_pixels
    return {
        **_FIXED,
        'image_processor_type': 'Qwen2VLImageProcessor',
        'size': dict(zip(_EDGES.values(), limits, strict=True)),
        'patch_size': processor.patch_size,
        'temporal_patch_size': vision.frames,
        'merge_size': processor.merge_size,
        'rescale_factor': 1 / 255,
        'image_mean': list(processor.mean),
        'image_std': list(processor.std),
    }


def read_processor(source: str, vision: Vision, *, max_pixels: int = 0) -> Processor:
    """Reads the processor of a model.

    Args:
        source: a directory or a hub name.
        vision: the tower, whose patches the file must describe.
        max_pixels: a smaller limit of a resized picture; 0: the limit in the file.

    Raises:
        InputError: no such file, or a field that is absent, unknown or not supported.
    """
    path, fields = _read(source)
    with prefixed(path):
        fixed = {
            **_FIXED,
            'patch_size': vision.patch_size,
            'merge_size': vision.merge_size,
            'temporal_patch_size': vision.frames,
        }
        _check_names(fields, fixed)
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


def stored_fields(source: str) -> dict[str, Any]:
    """Returns the fields of a model's processor, as its file has them.

    Raises:
        InputError: the model has no such file.
    """
    return _read(source)[1]


def limited_fields(fields: Mapping[str, Any], processor: Processor) -> dict[str, Any]:
    """Returns a model's fields with the limits of a processor.

    >>> one = Processor(14, 2, 784, 1000, (0.5,) * 3, (0.5,) * 3)
    >>> fields = limited_fields({'patch_size': 14, 'max_pixels': 9000}, one)
    >>> fields['max_pixels'], fields['size']
    (1000, {'shortest_edge': 784, 'longest_edge': 1000})
    """
    limits = {'min_pixels': processor.min_pixels, 'max_pixels': processor.max_pixels}
    stated = {name: limits[name] for name in _EDGES if name in fields}
    size = {edge: limits[name] for name, edge in _EDGES.items()}
    return {**fields, **stated, 'size': size}


def _read(source: str) -> tuple[pathlib.Path, dict[str, Any]]:
    """Reads the fields, from the same file as transformers if there are two."""
    directory, name = source_directory(source, FILES), 'image_processor'
    path = directory / _ALL
    if path.is_file() and name in (parts := read_json(path)):
        if not isinstance(fields := parts[name], dict):
            raise InputError(f'{path}: {name}={fields!r} must be an object')
        return path, fields
    return directory / PROCESSOR, read_json(directory / PROCESSOR)


def _check_names(fields: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Raises InputError for an unsupported field that may change a patch."""
    read = {'size', *_EDGES, 'rescale_factor', 'image_mean', 'image_std'}
    size = fields.get('size')
    sizes = {f'size.{k}': x for k, x in size.items()} if type(size) is dict else {}
    limits = {f'size.{name}' for pair in _EDGES.items() for name in pair}
    unknown = sizes.keys() - limits
    unknown |= fields.keys() - read - fixed.keys() - _INERT - {*_OFF}
    if unknown:
        stated = {**fields, **sizes}
        listing = ', '.join(f'{key}={stated[key]!r}' for key in sorted(unknown))
        raise InputError(f'fields that passk_jax does not know: {listing}')
    for name in _OFF:
        if value := fields.get(name):
            raise InputError(f'{name}={value!r}; only None is supported')


def _pixels(fields: Mapping[str, Any], name: str) -> int:
    """Reads a limit, which has another name in older files."""
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
