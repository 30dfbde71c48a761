"""The maze testbed of MaxRL: mazes of 17x17 with one solution, 128 rollouts a prompt.

Source: MaxRL (arXiv 2602.02710) and its public script, whose shape this has: a Qwen2 of
4 layers x 256, prompts of at most 320 tokens, responses of at most 180, 256 prompts of
128 rollouts a step in one update, learning rate 1e-4. Pass@k Training instead of its
estimator: section ``sec:passk_w_analytical_derivation`` of the paper. For MaxRL's own
add ``--config.advantage.name=maxrl``; tests/configs_test.py has the testbed's numbers.

    python -m passk_jax.train --config=configs/maze17.py --workdir=runs/maze17

Eight chips of v5e share the batch; a step takes them at least 1.5 s. One chip of v5p
takes at least 4.9 s, with ``--config.train.micro_batch_prompts=1``. Both plans are in
experiments/plans/:

    python -m passk_jax.plan --config=configs/maze17.py --topology=v5e:2x4

Time and result: see experiments/README.md, which says what was run and on which
hardware. The laptop-size twin is configs/maze9.py.

What differs from the testbed:

* Its tokens are words (UP, WALL); here a character is a token. Its mazes differ; here
  they are uniform perfect mazes by Wilson's algorithm, with S and E in corners.
* It starts from a checkpoint of supervised training. Here a warm start in the same
  program replaces it, of as many steps as the checkpoint's name says (1,500).
* It computes in float16. Here matrix products are bfloat16, and master weights float32.
* Its loss clips as verl does by default; here the ratio is clipped as in the paper.
* It evaluates 2,048 responses to a problem. Here it is 128, and
  ``python -m passk_jax.evaluate --num_responses=2048`` makes as many.
"""

from ml_collections import ConfigDict

from configs import maze9


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = maze9.get_config()
    config.name = 'maze17'
    params = config.task.params
    params.train_sizes, params.train_counts = (17,), (50_000,)
    params.validation_sizes, params.validation_counts = (17,), (256,)
    params.test_sizes, params.test_counts = (17,), (512,)
    # With the stop token, one below the limit of the response.
    params.max_path = 178
    # 17 rows of 17 cells and a line break.
    config.data.max_prompt_tokens = 306
    config.sampling.max_response_tokens = 180
    config.sampling.num_rollouts = 128

    arch = config.model.arch
    arch.num_layers, arch.embed_dim, arch.mlp_dim = 4, 256, 1024
    arch.num_heads, arch.num_kv_heads, arch.head_dim = 4, 2, 64
    arch.rope_theta = 1_000_000.0
    config.model.compute_dtype = 'bfloat16'
    config.init.warm_start.steps = 1_500

    config.train.steps = 1_000
    config.train.num_prompts = 256
    config.train.mini_batch_prompts = 256
    # A pass has 1,024 responses; no more than eight chips can share its prompts.
    config.train.micro_batch_prompts = 8
    config.optimizer.learning_rate = 1e-4

    config.eval.num_responses = 128
    config.eval.every = 50
    config.eval.batch_size = 32
    config.checkpoint.every = 50
    return config
