"""The settings of the policy network."""

import dataclasses

from passk_jax.config.ranges import count, not_empty, one_of, section

DTYPES = ('float32', 'bfloat16')


@section
class ArchConfig:
    """Sizes of a policy made from scratch; all 0 if ``model.source`` sets them.

    Attributes:
        mlp_dim: width of the MLP, or of each expert.
        num_experts: in each layer, of a family with experts; otherwise 0.
        experts_per_token: how many of them run a token.
        norm_topk_prob: whether the weights of a token's experts add up to 1.
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


@section
class ModelConfig:
    """The policy network.

    Attributes:
        family: a key of ``models.families.FAMILIES``, which must agree with the
            ``config.json`` of ``source``; ``''``: the family which that file names.
        source: Hugging Face directory or hub name that gives sizes, weights (if
            ``init.kind == 'hf'``) and tokenizer; ``''``: ``arch`` gives the sizes. A
            hub name may have a revision: ``name@revision``.
        tokenizer: ``'characters'`` (built from the task's alphabet), ``'source'``
            (that of ``model.source``), or a Hugging Face directory or hub name.
        arch: sizes when ``source == ''``.
        param_dtype: dtype of the master weights and the optimizer.
        compute_dtype: dtype of the matrix products.
        remat: what the backward pass recomputes: ``'none'`` (no matrix product),
            ``'full'`` (each layer) or ``'attention'`` (each layer but its attention).
        attention: the kernel for whole sequences: ``'plain'``, ``'splash'`` (TPU),
            ``'cudnn'`` (GPU) or ``'auto'`` (the platform's kernel where it works).
        head_chunk_tokens: tokens whose logits a device holds at a time when it learns.
        experts: how the products of experts are made: ``'blocks'``, ``'ragged'`` (TPU)
            or ``'auto'`` (the fastest of the platform).
        frozen: parameters that training leaves alone: their names, or how these begin,
            as ``'layers.mlp.router'``.
        replay_routing: whether the learner runs each token through the experts that ran
            it in sampling, instead of those that its own router chooses.
    """

    family: str
    source: str
    tokenizer: str = not_empty()
    arch: ArchConfig
    param_dtype: str = one_of(*DTYPES)
    compute_dtype: str = one_of(*DTYPES)
    remat: str = one_of('none', 'full', 'attention')
    attention: str = one_of('auto', 'plain', 'splash', 'cudnn')
    head_chunk_tokens: int = count(1)
    experts: str = one_of('auto', 'blocks', 'ragged', off='auto')
    frozen: tuple[str, ...] = dataclasses.field(metadata={'off': ()})
    replay_routing: bool = dataclasses.field(metadata={'off': False})
