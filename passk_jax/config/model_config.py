"""The settings of the policy network."""

import dataclasses

from passk_jax.config.ranges import count, not_empty, not_negative, one_of, section

DTYPES = ('float32', 'bfloat16')


@section
class VisionConfig:
    """Sizes of the tower that reads pictures; all 0 if there is none.

    Attributes:
        depth: number of blocks.
        embed_dim, num_heads, mlp_dim: sizes of a block.
        patch_size: side of a patch, in pixels.
        merge_size: side of the square of patches that becomes one token, in patches.
        table_size: rows, and columns, of the table of positions, which spans a picture.
        taps: blocks, from 0, whose outputs the first layers of the decoder also read.
    """

    depth: int = count(0, 1000)
    embed_dim: int = count(0, 10**6)
    num_heads: int = count(0, 10**6)
    mlp_dim: int = count(0, 10**6)
    patch_size: int = count(0, 10**3)
    merge_size: int = count(0, 10**3)
    table_size: int = count(0, 10**3)
    taps: tuple[int, ...]


NO_VISION = {
    field.name: () if field.name == 'taps' else 0
    for field in dataclasses.fields(VisionConfig)
}
"""A :class:`VisionConfig` without a tower."""


@section
class ArchConfig:
    """Sizes of a policy made from scratch; all 0 if ``model.source`` sets them.

    Attributes:
        mlp_dim: width of the MLP, or of each expert.
        num_experts: experts of each layer; 0 without experts.
        experts_per_token: number of experts that process a token.
        norm_topk_prob: whether the weights of a token's experts add up to 1.
        vision: the tower that reads pictures, of a family that has one.
    """

    # The deepest published models have about a hundred.
    num_layers: int = count(0, 1000)
    embed_dim: int = count(0, 10**6)
    num_heads: int = count(0, 10**6)
    num_kv_heads: int = count(0, 10**6)
    head_dim: int = count(0, 10**6)
    mlp_dim: int = count(0, 10**6)
    rope_theta: float
    norm_eps: float
    tie_embeddings: bool
    num_experts: int = count(0, 10**6, off=0)
    experts_per_token: int = count(0, 10**6, off=0)
    norm_topk_prob: bool = dataclasses.field(metadata={'off': False})
    vision: VisionConfig = dataclasses.field(metadata={'off': NO_VISION})


@section
class LoraConfig:
    """Low-rank adapters (LoRA), trained instead of the policy's parameters.

    Attributes:
        rank: rank of each adapter; 0: no adapters, so the parameters are trained.
        alpha: ``alpha / rank`` is the factor of an adapter's product.
        targets: names of the adapted matrices in a checkpoint, or their ends, as PEFT's
            ``target_modules``: ``'q_proj'``; ``'all-linear'``: all of the layers. An
            entry may list several, separated by commas.
        source: a PEFT directory, whose adapters the run starts with; ``''``: adapters
            that change nothing yet.
    """

    rank: int = count(0, 10**4)
    alpha: float = not_negative()
    targets: tuple[str, ...]
    source: str


NO_ADAPTERS = {'rank': 0, 'alpha': 0.0, 'targets': (), 'source': ''}
"""A :class:`LoraConfig` without effect."""


@section
class ModelConfig:
    """The policy network.

    Attributes:
        family: a key of ``models.families.FAMILIES``, which must agree with the
            ``config.json`` of ``source``; ``''`` takes the family from that file.
        source: Hugging Face directory or hub name that gives sizes, weights (if
            ``init.kind == 'hf'``) and tokenizer; ``''``: ``arch`` gives the sizes. A
            hub name may have a revision: ``name@revision``.
        tokenizer: ``'characters'`` (built from the task's alphabet), ``'source'``
            (that of ``model.source``), or a Hugging Face directory or hub name.
        arch: sizes when ``source == ''``.
        param_dtype: dtype of the master weights and the optimizer.
        compute_dtype: dtype of the matrix products.
        remat: what the backward pass recomputes: ``'none'`` (no matrix product),
            ``'full'`` (each layer), ``'attention'`` (each layer but its attention),
            ``'qkv'`` (nor queries, keys and values) or ``'gate_up'`` (nor the products
            with the matrices gate and up).
        attention: the kernel for whole sequences: ``'plain'``, ``'splash'`` (TPU; also
            decodes by a kernel, which reads only filled slots), ``'cudnn'`` (GPU) or
            ``'auto'`` (the platform's kernel where it works).
        head_chunk_tokens: tokens whose logits a device holds at once in training.
        experts: the implementation of the experts' matrix products: ``'blocks'``,
            ``'ragged'`` (TPU) or ``'auto'`` (the platform's fastest).
        frozen: parameters that training does not change: names or prefixes of names,
            such as ``'layers.mlp.router'``.
        frozen_dtype: dtype of the parameters that training does not change, such as the
            base under adapters; ``''``: ``param_dtype``.
        lora: adapters, which training changes instead of the parameters.
        train_vision: whether training also changes the tower that reads pictures.
        replay_routing: whether the learner uses the experts that sampling used for each
            token, instead of those that its router chooses.
    """

    family: str
    source: str
    tokenizer: str = not_empty()
    arch: ArchConfig
    param_dtype: str = one_of(*DTYPES)
    compute_dtype: str = one_of(*DTYPES)
    remat: str = one_of('none', 'gate_up', 'qkv', 'attention', 'full')
    attention: str = one_of('auto', 'plain', 'splash', 'cudnn')
    head_chunk_tokens: int = count(1)
    experts: str = one_of('auto', 'blocks', 'ragged', off='auto')
    frozen: tuple[str, ...] = dataclasses.field(metadata={'off': ()})
    frozen_dtype: str = one_of('', *DTYPES, off='')
    lora: LoraConfig = dataclasses.field(metadata={'off': NO_ADAPTERS})
    train_vision: bool = dataclasses.field(metadata={'off': False})
    replay_routing: bool = dataclasses.field(metadata={'off': False})
