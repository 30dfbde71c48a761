"""Writes the policy of a run as a Hugging Face model that transformers and vLLM load.

    python -m passk_jax.export --workdir=runs/maze_tiny --out=runs/maze_tiny/hf

The new directory has config.json (the source's, if the policy has a source), the
weights, the tokenizer with its chat template, generation_config.json, and the run's
config and step in passk_run.json. It appears only when it is complete. ``--hosts`` and
``--mesh`` set where the checkpoint is read and change no byte. This needs no torch.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
from absl import logging

from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.models import policy as policies
from passk_jax.models.arch import Vision
from passk_jax.models.families.table import family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf import save as hf_save
from passk_jax.models.hf.adapters import write_adapters
from passk_jax.models.hf.processor import (
    PROCESSOR,
    limited_fields,
    processor_fields,
    stored_fields,
)
from passk_jax.models.hf.save_tokenizer import save_tokenizer
from passk_jax.models.lora import merge, without_adapters
from passk_jax.models.policy import Params
from passk_jax.runs import saved_config
from passk_jax.runs.checkpoints import restore_params
from passk_jax.runs.exported import write_record
from passk_jax.runs.sources import check_sources
from passk_jax.runtime.compile_cache import keep_programs
from passk_jax.runtime.hosts import barrier, join_hosts
from passk_jax.setup.setup import Setup, make_setup

_MAX_SHARD_BYTES = 5 * 10**9
_BASE = 'base'


def main(
    *,
    workdir: str,
    out: str,
    dtype: str = '',
    peft: bool = False,
    step: int | None = None,
    mesh: str | None = None,
    hosts: str = '',
) -> None:
    """Exports a checkpoint of the run in ``workdir`` to ``out``."""
    hf_save.check_new(out)
    if dtype and dtype not in hf_save.DTYPES:
        raise InputError(f'{dtype=} must be one of {list(hf_save.DTYPES)}')
    path = pathlib.Path(workdir)
    config = saved_config.run_config(path, mesh)
    if peft and not config.model.lora.rank:
        raise InputError(f'--peft writes adapters, and {path} has none: leave it out')
    if peft and dtype:
        raise InputError(
            f'{dtype=} would round what adapters have learned: with --peft leave it out'
        )
    # The run cast its weights to this type for sampling.
    dtype = dtype or config.model.compute_dtype
    check_sources(path, config.model)
    join_hosts(hosts)
    keep_programs(path)
    setup = make_setup(config)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    with jax.set_mesh(setup.mesh):
        params, step = restore_params(path, shapes, step=step)
        setup = setup.at(step)
        with hf_save.new_directory(out) as directory:
            if peft:
                _write_adapters(setup, params, directory, pathlib.Path(out))
            else:
                params = merge(params, setup.policy.arch.lora, dtype)
                _write_model(setup, params, directory, dtype)
            if directory is not None:
                save_tokenizer(setup.tokenizer, directory)
                write_record(directory, path, step=step)
    barrier('export')
    logging.info('wrote step %d of %s to %s', step, workdir, out)


def _write_model(
    setup: Setup, params: Params, directory: pathlib.Path | None, dtype: str
) -> None:
    """Writes a model without adapters: its weights, and the files that describe it."""
    hf_save.write_params(
        setup.policy.base,
        params,
        directory,
        dtype=dtype,
        max_shard_bytes=_MAX_SHARD_BYTES,
    )
    files = {
        'config.json': _config(setup, dtype=dtype),
        'generation_config.json': _generation_config(setup),
    }
    if vision := setup.policy.arch.vision:
        files[PROCESSOR] = _processor(setup, vision)
    # Only process 0 has a directory.
    if directory is not None:
        for name, fields in files.items():
            text = json.dumps(fields, indent=2) + '\n'
            (directory / name).write_text(text, encoding='utf-8')


def _write_adapters(
    setup: Setup,
    params: Params,
    directory: pathlib.Path | None,
    out: pathlib.Path,
) -> None:
    """Writes a PEFT directory; an unpublished base goes into ``base/``.

    The adapters keep the dtype of the parameters, because rounding may exceed what they
    have learned.
    """
    model, frozen_dtype = setup.config.model, setup.config.model.frozen_dtype
    base = model.source
    if setup.config.init.kind != 'hf':
        base = str((out / _BASE).absolute())
        folder = directory and directory / _BASE
        if folder is not None:
            folder.mkdir()
        dtype_of_base = frozen_dtype or model.param_dtype
        _write_model(setup, without_adapters(params), folder, dtype_of_base)
        if folder is not None:
            save_tokenizer(setup.tokenizer, folder)
    write_adapters(setup.policy, params, directory, base=base, dtype=model.param_dtype)


def _config(setup: Setup, *, dtype: str) -> dict[str, Any]:
    """Returns ``config.json``: the source's, or one made from the architecture."""
    config = setup.config
    if source := config.model.source:
        fields = _read(source, 'config.json')
        # The field has two names; transformers 5 introduced the second.
        stated = {'torch_dtype', 'dtype'} & fields.keys()
        return {**fields, **dict.fromkeys(stated or {'torch_dtype'}, dtype)}
    longest = config.data.max_prompt_tokens + config.sampling.max_response_tokens
    return hf_config.hf_config_fields(
        setup.policy.arch.base,
        family_of(config.model.family),
        dtype=dtype,
        max_positions=longest,
        eos_token_ids=setup.stop_tokens,
        pad_token_id=setup.tokenizer.pad_token_id,
    )


def _processor(setup: Setup, vision: Vision) -> dict[str, Any]:
    """Returns ``preprocessor_config.json``: the source's, with the run's limits."""
    assert setup.reader.processor is not None  # The policy has a tower.
    if not (source := setup.config.model.source):
        return processor_fields(setup.reader.processor, vision)
    fields = stored_fields(source)
    if not setup.config.data.max_picture_pixels:
        return fields
    return limited_fields(fields, setup.reader.processor)


def _generation_config(setup: Setup) -> Mapping[str, Any]:
    """Returns ``generation_config.json``: the tokenizer source's, or the run's options.

    Either way, the stop tokens are the run's.
    """
    model, sampling = setup.config.model, setup.config.sampling
    source = model.source if model.tokenizer == 'source' else ''
    fields = _read(source, 'generation_config.json') if source else {}
    if not fields:
        fields = {
            'do_sample': True,
            # Hugging Face uses the same names for these options.
            **dataclasses.asdict(sampling.options),
            'max_new_tokens': sampling.max_response_tokens,
        }
        if (pad := setup.tokenizer.pad_token_id) is not None:
            fields['pad_token_id'] = pad
    stated = fields.get('eos_token_id')
    stated = stated if isinstance(stated, list) else [stated]
    same = set(stated) == set(setup.stop_tokens)
    return fields if same else {**fields, 'eos_token_id': list(setup.stop_tokens)}


def _read(source: str, name: str) -> dict[str, Any]:
    """Reads a JSON file of a model; returns an empty dict if there is none."""
    path = hf_config.source_directory(source, [name]) / name
    return hf_config.read_json(path) if path.is_file() else {}


if __name__ == '__main__':
    cli.run(main)
