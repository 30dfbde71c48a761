"""Pass@k Training of a 149k-parameter maze policy on two CPU cores.

Paper: Pass@k Training, sections ``sec:passk_w_analytical_derivation`` and
``sec:exploration_ability``, at the size of a laptop: 5x5 mazes, and a warm start in
place of a language model's pre-training. The whole job, including the set-up:

    make train

or, if the requirements are installed:

    python -m passk_jax.train --config=configs/maze_tiny.py --workdir=runs/maze_tiny

Pass@1 Training, for comparison, in its own workdir:

    python -m passk_jax.train --config=configs/maze_tiny.py \\
        --config.advantage.name=pass_at_1 --workdir=runs/maze_tiny_pass_at_1

Time: minutes on two cores. Result: see experiments/README.md, where a table compares
both over paired seeds.

A published model in the place of that policy needs one flag, and an hour of a core:

    python -m passk_jax.train --config=configs/maze_tiny.py \\
        --config.model.source=HuggingFaceTB/SmolLM2-135M-Instruct \\
        --workdir=runs/maze_tiny_smollm2

The warm start ends early on purpose: it leaves a low Pass@1 and a high Pass@32, as
pre-training leaves a language model on hard problems.
"""

from ml_collections import ConfigDict

from configs import base, smollm2


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = base.get_config()
    config.name = 'maze_tiny'
    _policy(config)

    config.task.name = 'maze'
    config.task.params = {
        # Too few perfect 5x5 mazes exist. Here walls, S and E are placed at random.
        'generator': 'percolation',
        'wall_probability': 0.35,
        'min_path': 3,
        'max_path': 10,
        'train_sizes': (5,),
        'train_counts': (20_000,),
        # The validation split is for tuning, and the test split for results.
        'validation_sizes': (5,),
        'validation_counts': (512,),
        'test_sizes': (5,),
        'test_counts': (1_024,),
        'seed': 0,
        'prompt': 'bare',
    }
    # Five rows of five cells and a line break. Ten moves, a stop token, one to spare.
    config.data.max_prompt_tokens = 30
    config.data.overlong = 'error'
    config.sampling.max_response_tokens = 12
    config.sampling.num_rollouts = 16

    config.advantage.name = 'pass_at_k'
    config.advantage.k = 4

    config.train.steps = 300
    config.train.num_prompts = 32
    config.train.mini_batch_prompts = 16
    # Four prompts per pass stay in a core's cache: a tenth less time than sixteen.
    config.train.micro_batch_prompts = 4
    # A response has five of the twelve tokens, so two mostly fit in a row.
    config.train.packing, config.train.pack_sizes = 'prompts', 2
    # A small policy from scratch needs a far higher rate than a large one. 600 updates
    # are too few for b2 = 0.999, which averages over a thousand.
    config.optimizer.learning_rate = 2e-4
    config.optimizer.b2 = 0.95
    config.optimizer.weight_decay = 0.0

    config.eval.every = 50
    config.eval.split = 'validation'
    config.eval.final_split = 'test'
    config.eval.num_responses = 32
    config.eval.batch_size = 64
    # Not the paper's 0.95: with five answer tokens that would cut the policy's rare
    # moves, which are to be measured.
    config.eval.top_p = 1.0

    config.checkpoint.every = 100
    config.log.rollouts_every = 50
    return config


def _policy(config: ConfigDict) -> None:
    """Sets a Qwen2 with 149 thousand parameters, warm-started in the same program."""
    config.model.family = 'qwen2'
    config.model.source = ''
    config.model.tokenizer = 'characters'
    config.model.arch.update(
        {
            'num_layers': 3,
            'embed_dim': 64,
            'num_heads': 4,
            'num_kv_heads': 2,
            'head_dim': 16,
            # SwiGLU's three matrices of 3 x width have about the size of two of 4 x.
            'mlp_dim': 192,
            'rope_theta': 10_000.0,
            'norm_eps': 1e-6,
            'tie_embeddings': True,
        }
    )
    config.model.compute_dtype = 'float32'
    config.model.remat = 'none'
    # A kernel has nothing to gain on 42 tokens.
    config.model.attention = 'plain'
    # A whole mini-batch at a time: 16 prompts x 16 rollouts x 12 tokens.
    config.model.head_chunk_tokens = 4096

    config.init.kind = 'warm_start'
    config.init.warm_start.steps = 200
    config.init.warm_start.batch_size = 64
    config.init.warm_start.optimizer.learning_rate = 2e-3
    config.init.warm_start.num_problems = 0
    config.init.warm_start.demonstrations = 'shortest_path'


def use_source(config: ConfigDict) -> None:
    """Adapts the run to the language model that ``--config.model.source`` names."""
    # The prompt is English, and the answer a few tokens in a box. Chat templates vary.
    config.task.params.prompt = 'instruct'
    config.data.max_prompt_tokens = 512
    config.sampling.max_response_tokens = 32
    config.eval.num_problems = 64
    smollm2.fit_one_core(config)
