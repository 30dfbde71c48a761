"""The paper's Maze experiment: Qwen2.5-7B-Instruct, Pass@k Training, analytical.

Paper: Pass@k Training, section ``sec:passk_w_analytical_derivation``, data of table
``tab:maze_data``, results in table ``tab:maze_results`` ("P@k T. w/ AD": Pass@1 47.7,
Pass@k 65.0 on average over the sizes). On every host, with a workdir that all share:

    python -m passk_jax.train --config=configs/maze.py --workdir=/shared/maze

For the table's other methods add ``--config.advantage.name=pass_at_1``,
``full_sampling`` or ``bootstrap_sampling``. Planned for 64 chips of v5p with
``--config.mesh.fsdp=16 --config.mesh.rollout=4 --config.mesh.decode_tensor=4
--config.train.micro_batch_prompts=16`` (experiments/plans/maze_v5p.md).

Time and result: see experiments/README.md, which says what was run and on which
hardware. The laptop-size twin is configs/maze_tiny.py.

What the paper does not say or does differently:

* Its mazes are on the hub (RUC-AIBOX/Passk_Training_Maze), which we could not
  reach. These are perfect mazes by Wilson's algorithm, which agree with the paper's
  counts (only 192 of 7x7 exist). We do not know the wording of its prompt.
* It names no k for its main runs. Four follows from section
  ``sec:passk_w_bootstrap_sampling``: 128 rollouts make as many groups by full sampling
  as 32 rollouts by bootstrap sampling, and those make 32.
* It gives no limits of prompt and response for mazes; the largest maze has 21 x 22
  characters.
* The paper evaluates on the test set during training. Here a validation split serves
  for that, and the test set only before the first step and after the last.
"""

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = base.get_config()
    config.name = 'maze'
    config.model.source = 'Qwen/Qwen2.5-7B-Instruct'
    config.model.tokenizer = 'source'
    config.init.kind = 'hf'

    config.task.name = 'maze'
    config.task.params = {
        'generator': 'wilson',
        # Only percolation uses this.
        'wall_probability': 0.0,
        # Paths of any length.
        'min_path': 0,
        'max_path': 0,
        'train_sizes': (9, 11, 13, 15),
        'train_counts': (10_000, 10_000, 10_000, 10_000),
        'validation_sizes': (9, 11, 13, 15),
        'validation_counts': (50, 50, 50, 50),
        'test_sizes': (7, 9, 11, 13, 15, 17, 19, 21),
        'test_counts': (75, 100, 100, 100, 100, 100, 100, 100),
        'seed': 0,
        'prompt': 'instruct',
    }
    config.data.max_prompt_tokens = 1024

    # Reasoning comes before the answer, so this is the limit of the appendix.
    config.sampling.max_response_tokens = 4096

    config.advantage.name = 'pass_at_k'
    config.advantage.k = 4

    config.eval.split = 'validation'
    config.eval.final_split = 'test'
    config.eval.num_responses = 32
    return config
