"""The tokenizer and the architecture that a configuration names."""

import dataclasses
import pathlib
from collections.abc import Sequence

from absl import logging

from passk_jax.config import DataConfig, ModelConfig, SamplingConfig
from passk_jax.data.pictures import PictureReader
from passk_jax.errors import InputError, prefixed
from passk_jax.models import attention_kernels, grouped_products
from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.arch import Arch, arch_from_scratch
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf.processor import new_processor, read_processor
from passk_jax.models.lora import Lora
from passk_jax.models.policy import Policy
from passk_jax.models.tokenizer import Tokenizer
from passk_jax.models.transformer import Transformer
from passk_jax.models.vision import is_of_tower
from passk_jax.tasks import Task, require
from passk_jax.tasks.abilities import Alphabet


def make_tokenizer(model: ModelConfig, task: Task) -> tuple[Tokenizer, tuple[int, ...]]:
    """Makes the tokenizer, and returns it with the ids of its stop tokens.

    Raises:
        InputError: there is no such tokenizer, or the task has no alphabet for one.
    """
    kind = model.tokenizer
    if kind == 'characters':
        tokenizer = make_characters(model, task)
        return tokenizer, tokenizers.stop_token_ids(tokenizer)
    source = model.source if kind == 'source' else kind
    tokenizer = tokenizers.load_tokenizer(source)
    generation = tokenizers.load_generation_config(source)
    return tokenizer, tokenizers.stop_token_ids(tokenizer, generation)


def check_same_tokens(tokenizer: Tokenizer, checkpoint: str) -> None:
    """Checks that a policy of another run reads the tokens that this run writes.

    Args:
        tokenizer: that of this run.
        checkpoint: the other run, ``init.checkpoint``; ``''``: none.

    Raises:
        InputError: a token has another id there.
    """
    directory = pathlib.Path(checkpoint).expanduser() / 'tokenizer'
    if not checkpoint or not (directory / 'tokenizer.json').is_file():
        return
    trained = tokenizers.load_tokenizer(str(directory)).get_vocab()
    current = tokenizer.get_vocab()
    if differ := sorted(
        t for t in {*trained, *current} if trained.get(t) != current.get(t)
    ):
        ids = f'{trained.get(differ[0])} there and {current.get(differ[0])} here'
        raise InputError(
            f'init.checkpoint={checkpoint!r} was trained with other tokens: '
            f'{differ[0]!r} has the id {ids}, and {len(differ)} differ in all. '
            f'--config.model.tokenizer={directory} takes those of that run'
        )


def make_characters(model: ModelConfig, task: Task) -> Tokenizer:
    """Makes the tokenizer of the characters of a task.

    Raises:
        InputError: the task has no alphabet.
    """
    spelled_task = require(task, Alphabet, needed_by="model.tokenizer='characters'")
    pictures = model.arch.vision.depth > 0
    return tokenizers.character_tokenizer(spelled_task.alphabet, pictures=pictures)


def image_token(model: ModelConfig, tokenizer: Tokenizer) -> int:
    """Returns the id of the token in the place of a picture; 1 if it is not needed.

    Raises:
        InputError: a new policy reads pictures, and the tokenizer has no such token.
    """
    if not model.arch.vision.depth:
        return 1
    name = tokenizers.IMAGE_TOKEN
    if (token := tokenizer.get_vocab().get(name)) is None:
        raise InputError(
            f'model.arch.vision reads pictures, and model.tokenizer='
            f'{model.tokenizer!r} has no token {name!r} for their places'
        )
    return token


def architecture(
    config: ModelConfig, *, vocab_size: int, platform: str, image_token: int = 1
) -> Arch:
    """Returns the architecture, with implementations of its parts for ``platform``.

    Args:
        config: the model's configuration.
        vocab_size: size of the tokenizer; unused if ``config.source`` is set.
        platform: platform of the devices: ``'cpu'``, ``'gpu'`` or ``'tpu'``.
        image_token: as :func:`image_token` returns it.

    Raises:
        ValueError: the network does not support one of the settings.
    """
    if config.source:
        arch = hf_config.arch_from_hf(
            config.source,
            family=config.family,
            param_dtype=config.param_dtype,
            compute_dtype=config.compute_dtype,
            remat=config.remat,
            attention='plain',
        )
    else:
        sizes = {'vocab_size': vocab_size, 'image_token': image_token}
        arch = from_scratch(config, **sizes)
    attention = attention_kernels.choose_implementation(
        config.attention, platform=platform, dtype=arch.dtype, head_dim=arch.head_dim
    )
    kind = 'blocks'
    if arch.num_experts:
        kind = grouped_products.choose_implementation(config.experts, platform=platform)
    return dataclasses.replace(
        arch, attention=attention, experts=kind, lora=Lora.configured(config.lora)
    )


def make_policy(
    model: ModelConfig,
    sampling: SamplingConfig,
    arch: Arch,
    *,
    num_tokens: int | None = None,
) -> Policy:
    """Makes the policy of a run; :class:`Policy` explains ``num_tokens``."""
    return Policy(
        arch,
        head_chunk_tokens=model.head_chunk_tokens,
        num_tokens=num_tokens,
        frozen=frozen_names(model, arch),
        frozen_dtype=model.frozen_dtype,
        replay_routing=model.replay_routing,
        quantizes_cache=sampling.cache_dtype == 'int8',
    )


def converts_cache(policy: Policy) -> bool:
    """Returns whether every decode step converts all keys and values from int8.

    The splash kernel converts them on the chip instead.
    """
    return policy.quantizes_cache and policy.arch.attention != 'splash'


def as_evaluated(policy: Policy) -> Policy:
    """Returns a policy as evaluations sample from it: without int8 keys and values.

    It does not record routing, because no learner replays it.
    """
    return dataclasses.replace(policy, replay_routing=False, quantizes_cache=False)


def from_scratch(config: ModelConfig, *, vocab_size: int, image_token: int = 1) -> Arch:
    """Returns the architecture of ``model.arch``, with plain attention.

    Raises:
        InputError: the sizes do not fit together.
    """
    with prefixed('model.arch'):
        sizes = {'vocab_size': vocab_size, 'image_token': image_token}
        return arch_from_scratch(config, attention='plain', **sizes)


def frozen_names(config: ModelConfig, arch: Arch) -> frozenset[str]:
    """Returns the names of the parameters that training does not change.

    These are the entries of ``model.frozen``, the tower unless ``model.train_vision``,
    and with adapters the whole base.

    Raises:
        InputError: an entry names no parameter, all are frozen, or
            ``model.frozen_dtype`` or ``model.train_vision`` affects no parameter.
    """
    if config.train_vision and not arch.vision:
        raise InputError(
            'model.train_vision=True has no effect, because the model reads no '
            'pictures: leave it False'
        )
    if arch.lora:
        return frozenset(Transformer.parameters(arch.base))
    names, frozen = list(Transformer.parameters(arch)), set()
    tower = set(filter(is_of_tower, names))
    if not config.train_vision:
        frozen |= tower
    for entry in config.frozen:
        meant = {x for x in names if x == entry or x.startswith(f'{entry}.')}
        if not meant:
            raise InputError(
                f'model.frozen names {entry!r}, which is neither a parameter nor how '
                f'one begins; they are {names}'
            )
        frozen |= meant
    if len(frozen) == len(names):
        raise InputError(f'model.frozen={config.frozen} leaves nothing to train')
    if config.train_vision and tower <= frozen:
        raise InputError(
            f'model.train_vision=True has no effect, because model.frozen='
            f'{config.frozen} freezes all of the tower: leave one of them out'
        )
    if config.frozen_dtype and not frozen:
        raise InputError(
            f'model.frozen_dtype={config.frozen_dtype!r} has no effect, because all '
            'parameters are trained: leave it empty'
        )
    return frozenset(frozen)


def make_reader(config: ModelConfig, data: DataConfig, arch: Arch) -> PictureReader:
    """Makes the reader of problems' pictures, for a policy with or without a tower.

    Raises:
        InputError: the model has no processor file, or one that is not supported.
    """
    if arch.vision is None:
        return PictureReader()
    limit = data.max_picture_pixels
    if config.source:
        processor = read_processor(config.source, arch.vision, max_pixels=limit)
    else:
        processor = new_processor(arch.vision, max_pixels=limit)
    token, blank = arch.vision.image_token, data.blank_pictures
    return PictureReader(processor, token, blank=blank)


def check_pictures(data: DataConfig, arch: Arch) -> None:
    """Raises InputError for a picture setting if the policy reads only text."""
    for name in ('max_picture_pixels', 'blank_pictures'):
        if (value := getattr(data, name)) and not arch.vision:
            raise InputError(
                f'data.{name}={value} has no effect, because the model reads no '
                f'pictures: leave it {type(value)()}'
            )


def num_tokens(
    tokenizer: Tokenizer, arch: Arch, *, stop_tokens: Sequence[int] = ()
) -> int:
    """Counts the rows of the token table that the tokenizer's ids need.

    The table may lack rows for added tokens that end no response: Gemma 3's tokenizer
    has one for pictures, also for the models that read only text.

    Raises:
        InputError: the table has no row for some other token.
    """
    vocabulary, rows = tokenizer.get_vocab(), arch.vocab_size
    without = {token: i for token, i in vocabulary.items() if i >= rows}
    if {*without.values()} & {*stop_tokens} or without.keys() - (
        tokenizer.get_added_vocab().keys()
    ):
        raise InputError(
            f'the tokenizer (model.tokenizer) has ids up to {max(without.values())}, '
            f'but the token table of the model has only {rows} rows'
        )
    if without:
        logging.info('the model has no rows for the added tokens %s', sorted(without))
    largest = max(i for i in vocabulary.values() if i < rows)
    if padding := arch.vocab_size - largest - 1:
        logging.info(
            'the sampler never draws the last %d rows of the token table', padding
        )
    return largest + 1


def check_positions(
    model: ModelConfig, data: DataConfig, sampling: SamplingConfig
) -> None:
    """Raises ValueError if a response could run past the model's last position."""
    if model.source:
        longest = data.max_prompt_tokens + sampling.max_response_tokens
        hf_config.check_positions(model.source, num_tokens=longest)
