"""Pass@k Training of policies with experts: Qwen3-MoE at two sizes.

Paper: Pass@k Training, table ``tab:main_seedvl``, whose policy has experts and no
published weights. Here are the published text models of that kind, and one of the size
of a laptop. The argument ``model`` chooses one:

    python -m passk_jax.train --config=configs/experts.py:model=tiny \\
        --workdir=runs/experts_tiny

The router is trained, and no loss balances the experts: both are easily changed, and a
run reports the load of the busiest expert, the entropy of the router, and the gap of
sampler and learner. To leave the router alone:

    python -m passk_jax.train --config=configs/experts.py:model=tiny \\
        --config.model.frozen="('layers.mlp.router',)" --workdir=runs/experts_frozen

Time: minutes on two cores. Result: no comparison has been made.
"""

from ml_collections import ConfigDict

from configs import arguments, enigmata, maze_tiny


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration of ``model=<one of MODELS>``."""
    model = arguments.parse(argument, choices={'model': MODELS})['model']
    config = MODELS[model]()
    config.name = f'experts_{model}'
    return config


def tiny() -> ConfigDict:
    """The policy of configs/maze_tiny.py with 8 experts instead of each MLP.

    A token runs two of them, together as wide as that MLP. It trains on the same mazes.
    """
    config = maze_tiny.get_config()
    config.model.family = 'qwen3_moe'
    config.model.arch.update(
        {
            'mlp_dim': 96,
            'num_experts': 8,
            'experts_per_token': 2,
            'norm_topk_prob': True,
        }
    )
    return config


def qwen3_30b_a3b() -> ConfigDict:
    """Qwen3-30B-A3B on the paper's puzzles, with its batches.

    128 experts in each of 48 layers, of which a token runs 8: 3.3 of 30.5 billion
    parameters. Planned for 64 chips, 16 prompt shares x 4 shards of the experts:

        python -m passk_jax.plan --config=configs/experts.py:model=qwen3_30b_a3b \\
            --topology=v5p:4x4x4

    HBM per chip: training 19.1, decoding 44.7 of 95.7 GiB. No program has an
    all-to-all.
    """
    config = enigmata.get_config('model=qwen25_7b')
    config.model.source = 'Qwen/Qwen3-30B-A3B'
    config.data.chat_template_kwargs = ConfigDict({'enable_thinking': False})
    config.mesh.update(fsdp=16, rollout=1, tensor=4)
    config.train.micro_batch_prompts = 16
    return config


MODELS = {model.__name__: model for model in (tiny, qwen3_30b_a3b)}
