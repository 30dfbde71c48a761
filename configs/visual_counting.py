"""Pass@k Training of a policy that counts objects in pictures, on a laptop.

Paper: Pass@k Training, table ``tab:main_seedvl``, whose policy reads pictures and has
no published weights. Here is a policy of that kind at the size of a laptop, made from
scratch: a tower of one block, whose features the decoder reads (DeepStack). A picture
of 16 x 16 pixels shows objects of three colors, and the answer is how many of them have
the color in the prompt, 0 to 5.

    python -m passk_jax.train --config=configs/visual_counting.py \\
        --workdir=runs/visual_counting

The same with black pictures, to see what is right without sight:

    python -m passk_jax.train --config=configs/visual_counting.py:sight=blind \\
        --workdir=runs/visual_counting_blind

With ``experts=8`` the policy has experts, as the paper's has: 8 in each layer, of which
a token runs two. The warm start ends early on purpose, as in configs/maze_tiny.py.

Time: 103 CPU seconds of one core, compilation and evaluations included. Result of seed
0, on 1,024 test problems with 32 responses each, before and after 300 steps: Pass@1
.444 and .783, Pass@4 .731 and .955, Pass@32 .985 and .981. Blind, Pass@1 is .168 and
.166, that of guessing one of six answers.
"""

from ml_collections import ConfigDict

from configs import arguments, maze_tiny


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration; ``sight`` is full or blind, ``experts`` 0 or 8."""
    config = maze_tiny.get_config()
    config.name = 'visual_counting'
    add_tower(config, argument)

    config.task.name = 'visual_counting'
    config.task.params = ConfigDict(
        {
            'grid_size': 4,
            # The size of a patch of the tower.
            'cell_pixels': 4,
            'num_colors': 3,
            'max_count': 5,
            'train_count': 20_000,
            # The validation split is for tuning, and the test split for results.
            'validation_count': 512,
            'test_count': 1_024,
            'seed': 0,
            'prompt': 'bare',
        }
    )
    # 16 patches, two marks, a color and a line break.
    config.data.max_prompt_tokens = 24
    # A digit, and a stop token.
    config.sampling.max_response_tokens = 2
    config.train.pack_sizes = 0

    config.init.warm_start.steps = 250
    config.init.warm_start.demonstrations = 'count'
    config.init.warm_start.optimizer.learning_rate = 3e-3
    config.train.steps = 300
    config.optimizer.learning_rate = 5e-4
    return config


def add_tower(config: ConfigDict, argument: str) -> None:
    """Adds a tower to the policy of configs/maze_tiny.py; a patch is 4 x 4 pixels."""
    values = arguments.parse(
        argument,
        defaults={'sight': 'full', 'experts': 0},
        choices={'sight': ('full', 'blind'), 'experts': (0, 8)},
    )
    config.data.blank_pictures = values['sight'] == 'blind'
    config.model.family = 'qwen3_vl'
    if values['experts']:
        config.model.family = 'qwen3_vl_moe'
        config.model.arch.num_experts = values['experts']
        # A token runs as many parameters as without experts.
        config.model.arch.experts_per_token = 2
        config.model.arch.mlp_dim //= 2
        config.model.arch.norm_topk_prob = True
    config.model.train_vision = True
    config.model.arch.vision.update(
        {
            'depth': 1,
            'embed_dim': 64,
            'num_heads': 4,
            'mlp_dim': 128,
            'patch_size': 4,
            # Each patch is a token.
            'merge_size': 1,
            'table_size': 4,
            'taps': (0,),
        }
    )
