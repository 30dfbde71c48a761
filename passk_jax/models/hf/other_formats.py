"""Hints for models in formats that cannot be read: names and conversions."""

import pathlib

_SAVE_PRETRAINED = (
    ".save_pretrained('<new directory>'), and save the tokenizer there too"
)
_VERL = (
    'merge the shards with python -m verl.model_merger merge --backend fsdp '
    '--local_dir {directory} --target_dir <new directory>'
)

# Pattern of a file that only this format has -> description, how to convert it.
_FORMATS = {
    'adapter_config.json': (
        'a LoRA adapter without its base',
        'set model.source to its base and model.lora.source to this directory; or '
        'convert it with peft.AutoPeftModelForCausalLM.from_pretrained({directory!r})'
        f'.merge_and_unload(){_SAVE_PRETRAINED}',
    ),
    # transformers cannot save a model read from GGUF, and its tokenizer differs.
    '*.gguf': (
        'a quantized model of llama.cpp',
        'download the safetensors of the model; or, of SmolLM2, in a checkout, '
        "pip install '.[gguf]' and python -m experiments.smollm2 {directory}/{name} "
        '--out=models/smollm2, which is the model.source then',
    ),
    'pytorch_model*.bin': (
        'pickled by PyTorch',
        'convert it with transformers.AutoModelForCausalLM.from_pretrained('
        f'{{directory!r}}){_SAVE_PRETRAINED}',
    ),
    'model_world_size_*_rank_*.pt': ("a shard of verl's FSDP checkpoint", _VERL),
    'dist_ckpt': (
        "verl's checkpoint of Megatron",
        _VERL.replace('fsdp', 'megatron'),
    ),
    'pytorch_model_fsdp_*': (
        "a checkpoint of accelerate's FSDP",
        'merge its shards with accelerate merge-weights {directory}/{name} '
        '<new directory>, and copy config.json and the tokenizer there',
    ),
    '*.distcp': (
        "a shard of PyTorch's distributed checkpoint",
        'merge the shards with python -m '
        'torch.distributed.checkpoint.format_utils dcp_to_torch {directory} '
        '<file.bin>, load that into the model of transformers and save it with '
        'save_pretrained',
    ),
    'zero_to_fp32.py': (
        "DeepSpeed's own, beside its shards",
        'merge them with python {directory}/{name} {directory} <new directory> '
        '--safe_serialization, and copy config.json and the tokenizer there',
    ),
    'consolidated*.pth': (
        "in Meta's own format",
        "take the model's repository with model.safetensors, or convert it with "
        'convert_llama_weights_to_hf.py of transformers 4',
    ),
    'consolidated*.safetensors': (
        "in Mistral's own format",
        "take the model's repository with model.safetensors",
    ),
    '*.pth': ('pickled by PyTorch', ''),
    '*.pt': ('pickled by PyTorch', ''),
    '*.ckpt': ('a checkpoint of a trainer', ''),
    'tf_model.h5': ("TensorFlow's", ''),
    'flax_model.msgpack': ("Flax's", ''),
}
_SAVE = (
    'load it into the model of transformers with the program that wrote it, and save '
    "it with save_pretrained('<new directory>'), and the tokenizer too"
)

# Prefixes of PyTorch files without weights.
_STATE = ('optimizer', 'rng_state', 'scaler', 'scheduler', 'training_args')

# First bytes of a file that only points to another -> description.
_STAND_INS = {
    b'version https://git-lfs.github.com/spec/': 'a pointer of Git LFS',
    b'# xet version': 'a pointer of Xet',
}
_MOST = 200


def hint(source: pathlib.Path) -> str:
    """Makes the end of a message: the format of a source, and how to convert it.

    Args:
        source: the directory of a model, or a file.

    Returns:
        ``''`` if there are safetensors of a whole model, or no known format.
    """
    directory = source if source.is_dir() else source.parent
    if source.is_dir() and any(source.glob('model*.safetensors')):
        return ''
    # verl keeps config and tokenizer in a subfolder next to its shards.
    above = directory.name == 'huggingface'
    for place in (directory, directory.parent) if above else (directory,):
        for pattern, (description, way) in _FORMATS.items():
            paths = [x for x in place.glob(pattern) if not x.name.startswith(_STATE)]
            if source.is_file():
                paths = [x for x in paths if x.name == source.name]
            for path in sorted(paths)[:1]:
                way = (way or _SAVE).format(directory=str(place), name=path.name)
                name = path.name if place == directory else str(path)
                return f'; {name} is {description}: {way}'
    return ''


def stand_in(path: pathlib.Path) -> str:
    """Describes a file that stands in for the real one, for a message.

    Returns ``''`` unless it begins like a pointer or a web page.
    """
    try:
        with path.open('rb') as file:
            start = file.read(_MOST).lstrip()
    except OSError:
        return ''
    for first, description in _STAND_INS.items():
        if start.startswith(first):
            return (
                f'{path.name} is {description}, not the file: in that repository run '
                'git lfs install && git lfs pull, or fetch it with hf download <name> '
                '--local-dir <directory>'
            )
    if start.lower().startswith((b'<!doctype html', b'<html')):
        return f'{path.name} is a page of HTML, not the file: fetch it again'
    return ''
