"""Reads and writes adapters as a directory of PEFT.

``adapter_model.safetensors`` has the tensors ``base_model.model.<matrix>.lora_A.weight
[rank, in]`` and ``lora_B.weight [out, rank]``; ``adapter_config.json`` has rank, alpha
and targets. The base is not in the directory.
"""

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from passk_jax.errors import InputError
from passk_jax.models.hf import save, weights
from passk_jax.models.hf.config import read_json, source_directory
from passk_jax.models.lora import is_adapter
from passk_jax.models.parameters import STACKS, Parameter, Table
from passk_jax.models.policy import Params, Policy, param_shapes
from passk_jax.models.transformer import Transformer

CONFIG, STEM = 'adapter_config.json', 'adapter_model'
_PREFIX = 'base_model.model.'
# Fields that change no logit. Fields besides these and the ones that we read select
# DoRA and other variants, ranks by layer, trained biases and tables.
_INERT = frozenset(
    {
        *('auto_mapping', 'base_model_name_or_path', 'exclude_modules'),
        *('inference_mode', 'layers_pattern', 'lora_dropout', 'megatron_core'),
        *('peft_version', 'qalora_group_size', 'revision', 'task_type'),
    }
)
# PEFT's other initializations change the base too.
_STARTS = (True, False, 'gaussian', 'orthogonal')


def load_adapters(policy: Policy, source: str, mesh: Mesh) -> Params:
    """Reads the adapters of a policy from a PEFT directory or hub name.

    Raises:
        InputError: no such source, another rank, alpha or other targets, a variant of
            LoRA, or tensors that do not fit.
    """
    file = f'{STEM}.safetensors'
    directory = source_directory(source, [CONFIG, file])
    _check(directory / CONFIG, policy)
    if not (directory / file).is_file():
        raise InputError(f'{directory} has no {file}: save it with safetensors')
    shapes = {k: x for k, x in param_shapes(policy, mesh).items() if is_adapter(k)}
    tables = list(map(_select_adapters, weights.stored_tables(policy.arch)))
    return weights.read_tensors(directory, [directory / file], tables, shapes)


def write_adapters(
    policy: Policy,
    params: Params,
    directory: pathlib.Path | None,
    *,
    base: str,
    dtype: str,
) -> None:
    """Writes the adapters among ``params`` as a PEFT directory.

    Every process must call it; process 0 writes.

    Args:
        policy, params: the policy, and its parameters under any sharding.
        directory: an existing directory; only process 0 needs it.
        base: directory or hub name of the base, to be written into the config.
        dtype: one of ``save.DTYPES``.
    """
    adapters = {name: x for name, x in params.items() if is_adapter(name)}
    options = {'dtype': dtype, 'max_shard_bytes': 2**63, 'stem': STEM}
    save.write_tensors(_table(policy), adapters, directory, **options)
    if jax.process_index() == 0 and directory is not None:
        fields = _fields(policy, base)
        text = json.dumps(fields, indent=2) + '\n'
        (directory / CONFIG).write_text(text, encoding='utf-8')


def _fields(policy: Policy, base: str) -> dict[str, Any]:
    lora = policy.arch.lora
    assert lora is not None
    path = pathlib.Path(base).expanduser()
    # The base of an export is not in its place yet.
    is_directory = path.is_absolute() or path.is_dir()
    name, _, revision = (base, '', '') if is_directory else base.partition('@')
    return {
        'peft_type': 'LORA',
        'task_type': 'CAUSAL_LM',
        'base_model_name_or_path': name,
        'revision': revision or None,
        'inference_mode': True,
        'r': lora.rank,
        'lora_alpha': lora.alpha,
        'lora_dropout': 0.0,
        'target_modules': _targets(policy),
        'bias': 'none',
        'fan_in_fan_out': False,
    }


def _table(policy: Policy) -> Table:
    """Returns the rows of the adapters, with PEFT's names of tensors."""
    return _select_adapters(Transformer.parameters(policy.arch))


def _select_adapters(table: Table) -> Table:
    return {k: row.within(_PREFIX) for k, row in table.items() if is_adapter(k)}


def _targets(policy: Policy) -> list[str]:
    """Names the adapted matrices, for PEFT, which adapts all whose names end so.

    Matrices of the tower may be called like those of the decoder: then the names have
    the layers, too.
    """
    table = Transformer.parameters(policy.arch)
    adapted = {_matrix(row) for k, row in table.items() if is_adapter(k)}
    plain = {_numbered(_matrix(row)) for row in table.values()}
    plain -= set(map(_numbered, adapted))
    targets = set()
    for matrix in adapted:
        parts = matrix.split('.')
        ends = ('.'.join(parts[-n:]) for n in range(1, len(parts) + 1))
        end = next(x for x in ends if not any(_ends(y, _numbered(x)) for y in plain))
        targets |= {end.format(layer=i) for i in range(policy.arch.num_layers)}
    return sorted(targets)


def _matrix(row: Parameter) -> str:
    """Names the matrix of a row, without the adapter's part of the name."""
    return re.sub(r'(\.lora_[AB])?\.weight$', '', row.tensor)


def _numbered(name: str) -> str:
    return name.format(**dict.fromkeys(STACKS, 0))


def _ends(name: str, end: str) -> bool:
    return f'.{name}'.endswith(f'.{end}')


def _check(path: pathlib.Path, policy: Policy) -> None:
    """Raises InputError if an ``adapter_config.json`` does not fit the policy."""
    fields, lora = read_json(path), policy.arch.lora
    assert lora is not None
    if fields.get('peft_type') != 'LORA':
        raise InputError(f'{path}: peft_type={fields.get("peft_type")!r} is not LORA')
    if changed := _variants(fields):
        raise InputError(f'{path} has {changed}: only plain LoRA is read')
    stated = fields.get('target_modules')
    targets = stated if isinstance(stated, list) else [stated]
    ours, stored = (
        {str(x).rpartition('.')[2] for x in names}
        for names in (_targets(policy), targets)
    )
    # PEFT's usual list names matrices that a model with joined experts does not have.
    table = Transformer.parameters(policy.arch)
    matrices = {_matrix(row).rpartition('.')[2] for row in table.values()}
    same_targets = isinstance(stated, str) or stored & matrices == ours
    same = (fields.get('r'), fields.get('lora_alpha')) == (lora.rank, lora.alpha)
    if not (same and same_targets):
        raise InputError(
            f'{path} has other adapters than the run: set model.lora.rank='
            f'{fields.get("r")}, alpha={fields.get("lora_alpha")}, targets={stated}'
        )


def _variants(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that request more than plain LoRA."""
    read = _INERT | {'peft_type', 'r', 'lora_alpha', 'target_modules'}
    plain = {'bias': ('none', None), 'init_lora_weights': _STARTS}
    return {
        name: value
        for name, value in fields.items()
        if name not in read and value and value not in plain.get(name, ())
    }
