"""Models in formats that are not read, and how to convert them."""

import pathlib

# Pattern of a file that only such a model has -> what it is, and what converts it.
_FORMATS = {
    'adapter_config.json': (
        'a LoRA adapter without its base',
        'peft.AutoPeftModelForCausalLM.from_pretrained({directory!r})'
        '.merge_and_unload()',
    ),
    '*.gguf': (
        'a model of llama.cpp',
        'transformers.AutoModelForCausalLM.from_pretrained({directory!r}, '
        'gguf_file={name!r})',
    ),
    'pytorch_model*.bin': (
        'pickled by PyTorch',
        'transformers.AutoModelForCausalLM.from_pretrained({directory!r})',
    ),
}


def hint(directory: pathlib.Path) -> str:
    """What the directory of a model holds instead of safetensors, to end a message.

    It is empty if the directory has safetensors of a whole model, or nothing known.
    """
    if any(directory.glob('model*.safetensors')):
        return ''
    for pattern, (what, convert) in _FORMATS.items():
        for path in sorted(directory.glob(pattern))[:1]:
            model = convert.format(directory=str(directory), name=path.name)
            return (
                f'; {path.name} is {what}: convert it with '
                f"{model}.save_pretrained('<new directory>'), and save the tokenizer "
                'there too'
            )
    return ''
