"""The paper's mathematics experiment with Llama-3.1-8B-Instruct.

Paper: Pass@k Training, appendix ``sec:app_exp``, table ``tab:app_math`` ("+ P@k T.",
average: Pass@1 3.0, Pass@k 17.0). It gives both limits.

Planned for 64 chips, 16 shares of the prompts by 4 of the rollouts:

    python -m passk_jax.plan --config=configs/math_llama31_8b.py \\
        --topology=v5p:4x4x4

HBM a chip: training 53.8, decoding 70.7 of 95.7 GiB. Table:
experiments/plans/.

The task ``math`` is not in this repository yet: planning runs today, training
once ``passk_jax.tasks.TASKS`` has it. Then, on every host, with a workdir they all see:

    python -m passk_jax.train --config=configs/math_llama31_8b.py \\
        --workdir=/shared/math_llama31_8b

Time and result: see experiments/README.md, which says what was run and on what.

For Pass@1 Training add ``--config.advantage.name=pass_at_1``; for Pass@1 Training after
Pass@k Training (section ``sec:passk_to_pass1``) add
``--config.init.kind=checkpoint --config.init.checkpoint=<workdir>`` too.
"""

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = base.get_config()
    config.name = 'math_llama31_8b'
    config.model.source = 'meta-llama/Llama-3.1-8B-Instruct'
    config.mesh.update(fsdp=16, rollout=4, tensor=1)
    config.task.name = 'math'
    config.data.max_prompt_tokens = 2048
    config.sampling.max_response_tokens = 6144
    config.train.micro_batch_prompts = 16
    return config
