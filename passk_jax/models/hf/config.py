"""Converts between a Hugging Face ``config.json`` and our architecture.

1. :func:`arch_from_hf` reads a file and rejects every field that the network would not
   honor. transformers decides what older spellings and absent fields mean.
2. :func:`position_limit` returns how long a sequence the model can address.
3. :func:`hf_config_fields` writes the file of a policy made from scratch.

The families' files (qwen2.py and so on) define where families differ. weights.py and
save.py handle the weights. Nothing here needs torch.
"""

import copy
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import transformers
from huggingface_hub import snapshot_download

from passk_jax import files
from passk_jax.errors import InputError, prefixed
from passk_jax.models.arch import Arch
from passk_jax.models.families.family import Family
from passk_jax.models.families.table import family_of
from passk_jax.models.hf import inert_fields, nested, other_formats
from passk_jax.models.hf import layers as hf_layers
from passk_jax.models.hf import rope as hf_rope

# Field of Arch -> field of config.json with the same value.
_SIZES = {
    'vocab_size': 'vocab_size',
    'num_layers': 'num_hidden_layers',
    'embed_dim': 'hidden_size',
    'num_heads': 'num_attention_heads',
    'num_kv_heads': 'num_key_value_heads',
    'head_dim': 'head_dim',
    'mlp_dim': 'intermediate_size',
    'norm_eps': 'rms_norm_eps',
    'tie_embeddings': 'tie_word_embeddings',
}

# Other fields that decide or name the architecture.
_READ_FIELDS = frozenset().union(
    {'architectures', 'max_position_embeddings', 'model_type'},
    {'rope_parameters', 'rope_scaling', 'rope_theta', hf_rope.ORIGINAL},
)

# transformers would replace an absent size with that of some model.
_REQUIRED = (
    *('vocab_size', 'num_layers', 'embed_dim', 'num_heads', 'mlp_dim'),
    *('num_experts', 'experts_per_token'),
)

# Field -> spellings of one value: x * sigmoid(x), or no layer.
_SYNONYMS = {'hidden_act': ('silu', 'swish'), 'mlp_only_layers': ([], None)}

# transformers makes a list of this length; the deepest models have about a hundred.
_MOST_LAYERS = 1000


def arch_from_hf(
    source: str | Mapping[str, Any],
    *,
    param_dtype: str,
    compute_dtype: str,
    remat: str,
    attention: str,
    family: str = '',
) -> Arch:
    """Reads the architecture from a Hugging Face ``config.json``.

    Args:
        source: a directory, a hub name (fetched through the hub's cache), or the fields
            themselves.
        param_dtype: dtype of the master weights, whatever the file says.
        compute_dtype: dtype of the matrix products.
        remat, attention: as in :class:`Arch`.
        family: the ``model_type`` that the file must have; ``''`` allows all supported.

    Raises:
        InputError: no such source, another family, an absent size, or a field that
            the network does not honor.
    """
    path, fields = _read(source)
    if family and fields.get('model_type') != family:
        raise InputError(
            f'{path}: model_type={fields.get("model_type")!r} is not model.{family=}'
        )
    dtypes = {'param_dtype': param_dtype, 'dtype': compute_dtype}
    return _arch(path, fields, remat=remat, attention=attention, **dtypes)


def position_limit(source: str | Mapping[str, Any]) -> int:
    """Returns the most tokens, prompt and response, that the model can address.

    Args:
        source: as for :func:`arch_from_hf`.

    Raises:
        InputError: as for :func:`arch_from_hf`.
    """
    path, fields = _read(source)
    with prefixed(path):
        config = _checked(fields)
        return hf_layers.addressed(config, family_of(fields['model_type']))


def check_positions(source: str, *, num_tokens: int) -> None:
    """Raises InputError if the model cannot address a sequence of ``num_tokens``."""
    limit = position_limit(source)
    if limit < num_tokens:
        raise InputError(
            f'a prompt and its response may have {num_tokens} tokens together, but '
            f'model.source={source!r} addresses {limit}: lower data.max_prompt_tokens '
            'or sampling.max_response_tokens, or give its config.json a rope scaling'
        )


def hf_config_fields(
    arch: Arch,
    family: Family,
    *,
    dtype: str,
    max_positions: int,
    eos_token_ids: Sequence[int],
    pad_token_id: int | None,
) -> dict[str, Any]:
    """Makes the ``config.json`` of a policy that was made from scratch.

    It spells rope as before transformers 5, which all versions and vLLM read.

    Args:
        arch: the architecture.
        family: its family.
        dtype: dtype of the weights next to the file.
        max_positions: tokens of the longest sequence that the policy addresses.
        eos_token_ids: tokens that end a response.
        pad_token_id: the tokenizer's pad token; ``None`` if it has none.

    Raises:
        InputError: transformers rejects the fields, or reads another architecture from
            them.
    """
    ids = list(eos_token_ids)
    fields = {
        'architectures': [family.architecture],
        'model_type': family.model_type,
        **family.fixed,
        **hf_layers.layer_fields(arch, family),
        **{hf_name: getattr(arch, ours) for ours, hf_name in _sizes(family).items()},
        **hf_layers.position_fields(arch, family, num_tokens=max_positions),
        'torch_dtype': dtype,
        'use_cache': True,
        'bos_token_id': None,
        'eos_token_id': ids[0] if len(ids) == 1 else ids,
        'pad_token_id': pad_token_id,
    }
    if 'query_scalar' in family.sizes and not arch.query_scalar:
        fields[family.sizes['query_scalar']] = arch.head_dim
    fields = nested.nest(fields, arch, family)
    names = ('param_dtype', 'dtype', 'remat', 'attention', 'experts')
    ours = {name: getattr(arch, name) for name in names}
    meant = _arch(pathlib.Path('config.json'), fields, **ours)
    if meant != arch:
        raise InputError(
            f'{arch} is not a {family.model_type} model; the nearest that config.json '
            f'can express is {meant}'
        )
    return fields


CONSOLIDATED = 'consolidated*'
"""Weights in another format than transformers', which nobody here reads."""


def source_directory(source: str, patterns: Iterable[str]) -> pathlib.Path:
    """Returns the local directory of a source; fetches a hub name.

    Args:
        source: a directory or a hub name; ``name@revision`` selects a revision.
        patterns: patterns of the files to fetch.

    Raises:
        InputError: neither a directory nor a hub name, or the hub refuses it.
    """
    path = pathlib.Path(source).expanduser()
    if source and path.is_dir():
        return path
    if source and path.is_file():
        raise InputError(
            f'model source {source!r} is a file, not a directory'
            f'{other_formats.hint(path)}'
        )
    name, _, revision = source.partition('@')
    if not re.fullmatch(r'[\w-][\w.-]*(/[\w-][\w.-]*)?(@[\w./-]+)?', source):
        raise InputError(
            f'model source {source!r} is neither a directory nor a hub name'
        )
    try:
        files = {'allow_patterns': list(patterns), 'revision': revision or None}
        # Mistral's repositories have their weights twice.
        files['ignore_patterns'] = [CONSOLIDATED]
        return pathlib.Path(snapshot_download(name, **files))
    except (OSError, ValueError) as error:
        raise InputError(
            f'model source {source!r} is not a directory, and the hub does not give '
            f'it: {error}'
        ) from error


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads the JSON object in a file; InputError if there is none."""
    if not path.is_file():
        hint = other_formats.hint(path.parent)
        raise InputError(f'{path.parent} has no {path.name}{hint}')
    try:
        value = files.read_json(path)
    except ValueError as error:
        hint = other_formats.stand_in(path) or f'{path} is not JSON: {error}'
        raise InputError(hint) from error
    if not isinstance(value, dict):
        raise InputError(f'{path} is not a JSON object')
    return value


def _read(source: str | Mapping[str, Any]) -> tuple[pathlib.Path, dict[str, Any]]:
    if isinstance(source, Mapping):
        return pathlib.Path('config.json'), dict(source)
    # A LoRA adapter has only the second file.
    files = ['config.json', 'adapter_config.json']
    path = source_directory(source, files) / files[0]
    return path, read_json(path)


def _arch(path: pathlib.Path, fields: dict[str, Any], **ours: Any) -> Arch:
    """Makes the architecture from the fields and the caller's settings ``ours``."""
    with prefixed(path):
        config = _checked(fields)
        family = family_of(fields['model_type'])
        sizes: dict[str, Any] = {
            ours: getattr(config, hf_name, None)
            for ours, hf_name in _sizes(family).items()
        }
        derived = sizes['embed_dim'] // sizes['num_heads']
        sizes['head_dim'] = sizes['head_dim'] or derived
        if family.derives_head_dim and sizes['head_dim'] != derived:
            raise InputError(
                f'head_dim={sizes["head_dim"]} must be hidden_size / '
                f'num_attention_heads, {derived}, which transformers takes instead'
            )
        if 'query_scalar' in sizes:
            sizes['query_scalar'] = _query_scalar(sizes, family)
        layers = hf_layers.read_layers(config, family)
        vision = nested.vision(fields, family)
        return Arch(layers=layers, vision=vision, **family.pieces, **sizes, **ours)


def _query_scalar(sizes: Mapping[str, Any], family: Family) -> int:
    """Returns ``Arch.query_scalar``; 0 stands for ``head_dim``."""
    scalar = sizes['query_scalar']
    if type(scalar) is bool or scalar <= 0:
        name = family.sizes['query_scalar']
        raise InputError(f'{name}={scalar!r} must be positive: its root divides')
    return 0 if scalar == sizes['head_dim'] else scalar


def _sizes(family: Family) -> Mapping[str, str]:
    """Maps fields of Arch to fields of a family's config.json."""
    return {**_SIZES, **family.sizes}


def _required_fields(family: Family) -> list[str]:
    """Returns the fields that a file must have."""
    sizes = _sizes(family)
    return [sizes[name] for name in _REQUIRED if name in sizes]


def _checked(fields: dict[str, Any]) -> 'transformers.PreTrainedConfig':
    """Reads the fields with transformers, if the network honors all of them."""
    family = family_of(fields.get('model_type'))
    fields = nested.renamed(nested.text_fields(fields, family), family.synonyms)
    sizes = _sizes(family)
    supported = _READ_FIELDS | inert_fields.FIELDS | set(sizes.values())
    supported |= family.fixed.keys() | family.window_fields | family.inert
    supported |= inert_fields.VALUES.keys()
    layers = fields.get('num_hidden_layers')
    if isinstance(layers, int) and not 0 < layers <= _MOST_LAYERS:
        raise InputError(f'num_hidden_layers={layers} must lie in [1, {_MOST_LAYERS}]')
    if not hf_layers.states_windows(fields):
        # A file of any family may list layer types if none has a window.
        supported |= {'layer_types'}
    if unknown := fields.keys() - supported:
        listing = ', '.join(f'{key}={fields[key]!r}' for key in sorted(unknown))
        raise InputError(f'fields that passk_jax does not know: {listing}')
    if absent := [name for name in _required_fields(family) if not fields.get(name)]:
        listing = ', '.join(f'{name}={fields.get(name)!r}' for name in absent)
        raise InputError(f'every size must be stated; {listing}')
    architectures = fields.get('architectures') or [family.architecture]
    if architectures != [family.architecture]:
        raise InputError(
            f'{architectures=}; of {family.model_type} only '
            f'{family.architecture!r} is supported'
        )
    hf_layers.check_rope_is_declared_once(fields, family)
    try:
        # Copied, because transformers writes into the rope's fields.
        read = {k: v for k, v in fields.items() if k not in inert_fields.FIELDS}
        if family.vision:
            read['model_type'] = family.vision.text_type
        config = transformers.AutoConfig.for_model(**copy.deepcopy(read))
    except Exception as error:  # Its validation raises several classes of errors.
        reason = ' '.join(str(error).split())
        raise InputError(f'transformers refuses it: {reason}') from error
    hf_layers.check_base_of_windows(fields, config, family)
    # Checked last, because an absent field has transformers' default.
    for key, only in {**family.fixed, **inert_fields.VALUES}.items():
        value = fields.get(key, getattr(config, key, only))
        if key not in family.inert and value not in _SYNONYMS.get(key, (only,)):
            raise InputError(f'{key}={value!r}; only {only!r} is supported')
    return config
