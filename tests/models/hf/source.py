"""A directory as on the hub: random model, byte-level tokenizer, chat template."""

import json
import pathlib
from typing import Any

import tokenizers as hf_tokenizers
import transformers
from tokenizers import models, pre_tokenizers
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
)

from passk_jax.models.families.table import family_of
from tests.models.hf import oracle

_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] == 'image' %}"
    '<|vision_start|><|image_pad|><|vision_end|>'
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    '<|im_end|>\n{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)


_VISION_TOKENS = ('<|vision_start|>', '<|image_pad|>', '<|vision_end|>')
PROCESSOR = {
    'size': {'shortest_edge': 64, 'longest_edge': 1024},
    'patch_size': oracle.VISION['patch_size'],
    'image_mean': [0.5, 0.4, 0.5],
    'image_std': [0.5, 0.5, 0.3],
}
"""Settings of a model that reads pictures."""


def make_source(
    directory: pathlib.Path, family: str, **sizes: Any
) -> transformers.PreTrainedModel:
    """Saves a random model with a byte-level tokenizer, as on the hub."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = hf_tokenizers.Tokenizer(models.BPE(vocab, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = hf_tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token='<|im_end|>',
        pad_token='<|pad|>',
        additional_special_tokens=['<|im_start|>', *_VISION_TOKENS],
        chat_template=_TEMPLATE,
    )
    tokenizer.save_pretrained(directory)
    # Padded, as those of published models are.
    model = oracle.make_model(
        family,
        vocab_size=264,
        tie_word_embeddings=family == 'qwen3',
        image_token=tokenizer.convert_tokens_to_ids('<|image_pad|>'),
        **({'num_hidden_layers': 1} | sizes),
    )
    if family_of(family).vision:
        processor = Qwen2VLImageProcessorPil(**PROCESSOR)
        if family == 'qwen3_vl':
            # As AutoProcessor of transformers 5 saves it; others as published.
            text = json.dumps({'image_processor': processor.to_dict()})
            (directory / 'processor_config.json').write_text(text)
        else:
            processor.save_pretrained(directory)
    model.generation_config = transformers.GenerationConfig(
        do_sample=True, temperature=0.6, top_p=0.9, eos_token_id=[256, 258]
    )
    model.save_pretrained(directory)
    return model
