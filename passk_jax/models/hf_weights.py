"""Hugging Face checkpoints: config.json to an architecture, safetensors to parameters.

1. :func:`arch_from_hf` reads ``config.json`` and refuses every field whose meaning
   the network would not honour; no field is read past silently.
2. :func:`load_params` streams safetensors, tensor by tensor and each device's slice
   apart, into sharded arrays; no host ever holds the whole model.

:data:`TENSORS` is the one table of names and layouts. Another family adds its rows
there and its fields to the tables of config keys. Nothing here needs torch.
"""

import contextlib
import dataclasses
import functools
import json
import math
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from absl import logging
from huggingface_hub import snapshot_download
from jax.sharding import Mesh
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig

from passk_jax.models.policy import Params, Policy, param_shapes
from passk_jax.models.qwen2 import Qwen2Config


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Where a parameter lies in a checkpoint.

    Attributes:
        name: the tensor's name; ``{}`` stands for the layer.
        dims: for each dimension of the tensor, the parameter's dimensions that it
            flattens, slowest first. ``((1, 2), (0,))``: a parameter ``[D, J, H]``
            is stored as ``[J * H, D]``.
    """

    name: str
    dims: tuple[tuple[int, ...], ...]

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the tensor when the parameter has ``shape``."""
        return tuple(math.prod(shape[d] for d in group) for group in self.dims)


# Parameter -> tensor. torch stores a linear map as [out, in].
TENSORS = {
    'embed.embedding': Tensor('model.embed_tokens.weight', ((0,), (1,))),
    'layers.{}.attention_norm.scale': Tensor(
        'model.layers.{}.input_layernorm.weight', ((0,),)
    ),
    'layers.{}.attention.query.kernel': Tensor(
        'model.layers.{}.self_attn.q_proj.weight', ((1, 2), (0,))
    ),
    'layers.{}.attention.query.bias': Tensor(
        'model.layers.{}.self_attn.q_proj.bias', ((0, 1),)
    ),
    'layers.{}.attention.key.kernel': Tensor(
        'model.layers.{}.self_attn.k_proj.weight', ((1, 2), (0,))
    ),
    'layers.{}.attention.key.bias': Tensor(
        'model.layers.{}.self_attn.k_proj.bias', ((0, 1),)
    ),
    'layers.{}.attention.value.kernel': Tensor(
        'model.layers.{}.self_attn.v_proj.weight', ((1, 2), (0,))
    ),
    'layers.{}.attention.value.bias': Tensor(
        'model.layers.{}.self_attn.v_proj.bias', ((0, 1),)
    ),
    'layers.{}.attention.out.kernel': Tensor(
        'model.layers.{}.self_attn.o_proj.weight', ((2,), (0, 1))
    ),
    'layers.{}.mlp_norm.scale': Tensor(
        'model.layers.{}.post_attention_layernorm.weight', ((0,),)
    ),
    'layers.{}.mlp.gate.kernel': Tensor(
        'model.layers.{}.mlp.gate_proj.weight', ((1,), (0,))
    ),
    'layers.{}.mlp.up.kernel': Tensor(
        'model.layers.{}.mlp.up_proj.weight', ((1,), (0,))
    ),
    'layers.{}.mlp.down.kernel': Tensor(
        'model.layers.{}.mlp.down_proj.weight', ((1,), (0,))
    ),
    'final_norm.scale': Tensor('model.norm.weight', ((0,),)),
    'head.kernel': Tensor('lm_head.weight', ((1,), (0,))),
}

# Fields of config.json that the network honours only with this value.
_FIXED_FIELDS = {
    'model_type': 'qwen2',
    'hidden_act': 'silu',
    'attention_dropout': 0.0,
    'use_sliding_window': False,
    'use_mrope': False,
}

# Fields that become the architecture.
_READ_FIELDS = frozenset(
    {
        'head_dim',
        'hidden_size',
        'intermediate_size',
        'layer_types',
        'num_attention_heads',
        'num_hidden_layers',
        'num_key_value_heads',
        'rms_norm_eps',
        'rope_parameters',
        'rope_scaling',
        'rope_theta',
        'tie_word_embeddings',
        'vocab_size',
    }
)

# Fields without influence on logits: notes, token ids (the tokenizer's business),
# initialisation, and the window's sizes, dead while use_sliding_window is false.
_INERT_FIELDS = frozenset(
    {
        '_name_or_path',
        'architectures',
        'bos_token_id',
        'dtype',
        'eos_token_id',
        'id2label',
        'initializer_range',
        'label2id',
        'max_position_embeddings',
        'max_window_layers',
        'output_attentions',
        'output_hidden_states',
        'pad_token_id',
        'return_dict',
        'sliding_window',
        'torch_dtype',
        'transformers_version',
        'use_cache',
    }
)

_DTYPES = ('F32', 'F16', 'BF16')
_HEAD = TENSORS['head.kernel'].name
_TABLE = TENSORS['embed.embedding'].name


def arch_from_hf(
    source: str, *, param_dtype: str, compute_dtype: str, remat: bool
) -> Qwen2Config:
    """The architecture that a Hugging Face ``config.json`` describes.

    Args:
        source: a directory, or a hub name (fetched through the hub's cache).
        param_dtype: dtype of the master weights, whatever the file's.
        compute_dtype: dtype of the matrix products.
        remat: recompute each layer in the backward pass.

    Raises:
        ValueError: no such source, or a field that the network does not honour.
    """
    path = _directory(source, ['config.json']) / 'config.json'
    fields = _read_json(path)
    if fields.get('model_type') != _FIXED_FIELDS['model_type']:
        raise ValueError(
            f"{path}: model_type={fields.get('model_type')!r} is none of ['qwen2']"
        )
    unknown = set(fields) - _READ_FIELDS - _INERT_FIELDS - set(_FIXED_FIELDS)
    if unknown:
        shown = ', '.join(f'{key}={fields[key]!r}' for key in sorted(unknown))
        raise ValueError(f'{path}: fields that passk_jax does not know: {shown}')
    try:
        config = AutoConfig.from_pretrained(path.parent)
    except Exception as error:  # Its validation raises several classes of its own.
        raise ValueError(f'{path}: transformers refuses it: {error}') from error
    _check_fields(path, config)
    heads = config.num_attention_heads
    return Qwen2Config(
        vocab_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        embed_dim=config.hidden_size,
        num_heads=heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, 'head_dim', None) or config.hidden_size // heads,
        mlp_dim=config.intermediate_size,
        rope_theta=config.rope_parameters['rope_theta'],
        norm_eps=config.rms_norm_eps,
        tie_embeddings=config.tie_word_embeddings,
        param_dtype=param_dtype,
        dtype=compute_dtype,
        remat=remat,
    )


def _check_fields(path: pathlib.Path, config: Any) -> None:
    """Checks values, those that config.json leaves to transformers' defaults too."""
    for key, only in _FIXED_FIELDS.items():
        value = getattr(config, key, only)
        if value != only:
            raise ValueError(f'{path}: {key}={value!r}; only {only!r} is supported')
    if set(config.layer_types) != {'full_attention'}:
        raise ValueError(
            f'{path}: layer_types={config.layer_types!r}; only full_attention is '
            'supported'
        )
    rope = dict(config.rope_parameters)
    kinds = {rope.pop('rope_type', 'default'), rope.pop('type', 'default')}
    rope.pop('rope_theta', None)
    if kinds != {'default'} or rope:
        raise ValueError(
            f'{path}: rope_parameters={config.rope_parameters!r}; only rope_type '
            "'default' with a rope_theta is supported"
        )


def load_params(policy: Policy, source: str, mesh: Mesh) -> Params:
    """Reads a checkpoint into sharded arrays of the master dtype.

    Each tensor is read by the slices that this host's devices hold
    (``safetensors.get_slice``), turned to our layout and cast; a slice that several
    devices share is read once for each unless all of them hold the whole.

    Args:
        policy: from the same source's :func:`arch_from_hf`.
        source: a directory or hub name with ``model.safetensors`` or
            ``model.safetensors.index.json``; float32, float16 or bfloat16.
        mesh: where the parameters live.

    Raises:
        ValueError: no such source, an unreadable file, or, all in one message,
            every missing, unexpected, misshapen or mistyped tensor. With tied
            embeddings ``lm_head.weight`` may be there if it equals the token table.
    """
    directory = _directory(
        source, ['config.json', '*.safetensors', '*.safetensors.index.json']
    )
    shapes = param_shapes(policy, mesh)
    wanted = {name: _tensor(name) for name in shapes}
    with contextlib.ExitStack() as stack:
        stored, problems = _open_tensors(directory, stack)
        problems += _problems(stored, {wanted[n]: x.shape for n, x in shapes.items()})
        if problems:
            raise ValueError(
                f'{directory} does not fit the model:\n  ' + '\n  '.join(problems)
            )
        params = {
            name: jax.make_array_from_callback(
                x.shape,
                x.sharding,
                functools.partial(_read, stored[wanted[name].name], wanted[name], x),
            )
            for name, x in shapes.items()
        }
    count = sum(x.size for x in shapes.values())
    logging.info('read %d parameters from %s', count, directory)
    return params


def _tensor(name: str) -> Tensor:
    layer = re.search(r'\d+', name)
    row = TENSORS[re.sub(r'\d+', '{}', name)]
    return dataclasses.replace(row, name=row.name.format(layer and layer[0]))


def _read(
    stored: Any, tensor: Tensor, x: jax.ShapeDtypeStruct, index: tuple[slice, ...]
) -> np.ndarray:
    """Reads ``parameter[index]`` and nothing else of its tensor."""
    bounds = [part.indices(size)[:2] for part, size in zip(index, x.shape, strict=True)]
    sizes = [stop - start for start, stop in bounds]
    parts = []
    for first, *rest in tensor.dims:
        # A run of rows is one block only while the faster dimensions are whole.
        assert all(sizes[d] == x.shape[d] for d in rest), (tensor, x.sharding)
        inner = math.prod(sizes[d] for d in rest)
        start, stop = bounds[first]
        parts.append(slice(start * inner, stop * inner))
    order = [d for group in tensor.dims for d in group]
    values = np.asarray(stored[tuple(parts)]).reshape([sizes[d] for d in order])
    return values.transpose(np.argsort(order)).astype(x.dtype, order='C')


def _problems(
    stored: dict[str, Any], wanted: dict[Tensor, tuple[int, ...]]
) -> list[str]:
    """Everything wrong with the stored tensors, in words."""
    names = {tensor.name for tensor in wanted}
    problems = [f'missing {name}' for name in sorted(names - set(stored))]
    # A tied head is no parameter of ours, but files may repeat the table as one.
    repeated = _HEAD in stored and _HEAD not in names
    for name in sorted(set(stored) - names - ({_HEAD} if repeated else set())):
        problems.append(f'unexpected {name} {tuple(stored[name].get_shape())}')
    for tensor, shape in wanted.items():
        if tensor.name not in stored:
            continue
        have, want = tuple(stored[tensor.name].get_shape()), tensor.shape(shape)
        if have != want:
            problems.append(f'{tensor.name} has shape {have}, not {want}')
        dtype = stored[tensor.name].get_dtype()
        if dtype not in _DTYPES:
            problems.append(f'{tensor.name} is {dtype}, none of {_DTYPES}')
    if repeated and _TABLE in stored and not _equal(stored[_HEAD], stored[_TABLE]):
        problems.append(
            f'{_HEAD} differs from {_TABLE} although tie_word_embeddings is true'
        )
    return problems


def _equal(a: Any, b: Any, *, rows: int = 4096) -> bool:
    """Whether two stored matrices are the same, a few rows in memory at a time."""
    if a.get_shape() != b.get_shape():
        return False
    size = a.get_shape()[0]
    parts = [slice(i, min(i + rows, size)) for i in range(0, size, rows)]
    return all(np.array_equal(a[part], b[part]) for part in parts)


def _open_tensors(
    directory: pathlib.Path, stack: contextlib.ExitStack
) -> tuple[dict[str, Any], list[str]]:
    """Opens the files; a lazy slice for each tensor, and what is wrong with them."""
    index = directory / 'model.safetensors.index.json'
    single = directory / 'model.safetensors'
    if index.is_file():
        files = _read_json(index).get('weight_map')
        if not isinstance(files, dict):
            raise ValueError(f'{index} has no weight_map')
        paths = [directory / name for name in sorted(set(files.values()))]
    elif single.is_file():
        paths = [single]
    else:
        raise ValueError(f'{directory} has neither {single.name} nor {index.name}')
    stored: dict[str, Any] = {}
    problems = []
    for path in paths:
        try:
            file = stack.enter_context(safe_open(path, framework='numpy'))
        except (OSError, SafetensorError) as error:
            problems.append(f'cannot read {path.name}: {error}')
            continue
        names = set(file.keys())
        problems += [f'{name} is stored twice' for name in sorted(names & set(stored))]
        stored.update({name: file.get_slice(name) for name in names})
    return stored, problems


def _directory(source: str, patterns: Iterable[str]) -> pathlib.Path:
    """The local directory of a source, fetched from the hub where it is no path."""
    path = pathlib.Path(source).expanduser()
    if source and path.is_dir():
        return path
    if not re.fullmatch(r'[\w-][\w.-]*(/[\w-][\w.-]*)?', source):
        raise ValueError(f'model source {source!r} is no directory and no hub name')
    try:
        return pathlib.Path(snapshot_download(source, allow_patterns=list(patterns)))
    except (OSError, ValueError) as error:
        raise ValueError(
            f'model source {source!r} is no directory, and the hub does not give it: '
            f'{error}'
        ) from error


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f'{path.parent} has no {path.name}')
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f'{path} is no JSON: {error}') from error
    if not isinstance(value, dict):
        raise ValueError(f'{path} is no JSON object')
    return value
