"""The paper's mathematics experiment with DeepSeek-R1-Distill-Qwen-1.5B.

Paper: Pass@k Training, appendix ``sec:app_exp``, table ``tab:app_math`` ("+ P@k T.",
average: Pass@1 20.9, Pass@k 52.9). It extends the response to 10240 tokens;
the prompt keeps the 2048 of the Llama models.

Planned for 32 chips, 8 shares of the prompts by 4 of the rollouts:

    python -m passk_jax.plan --config=configs/math_r1_distill_15b.py \\
        --topology=v5p:2x4x4

HBM a chip: training 30.9, decoding 41.9 of 95.7 GiB. Table:
experiments/plans/.

The task ``math`` is not in this repository yet: planning runs today, training
once ``passk_jax.tasks.TASKS`` has it. Then, on every host, with a workdir they all see:

    python -m passk_jax.train --config=configs/math_r1_distill_15b.py \\
        --workdir=/shared/math_r1_distill_15b

Time and result: see experiments/README.md, which says what was run and on what.

For Pass@1 Training add ``--config.advantage.name=pass_at_1``; for Pass@1 Training after
Pass@k Training (section ``sec:passk_to_pass1``) add
``--config.init.kind=checkpoint --config.init.checkpoint=<workdir>`` too.
The row "(P@k T. + P@1 T.) x 2" is four runs, each from the checkpoint of the one before
it.
"""

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = base.get_config()
    config.name = 'math_r1_distill_15b'
    config.model.source = 'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B'
    config.mesh.update(fsdp=8, rollout=4, tensor=1)
    config.task.name = 'math'
    config.data.max_prompt_tokens = 2048
    config.sampling.max_response_tokens = 10_240
    config.train.micro_batch_prompts = 8
    return config
