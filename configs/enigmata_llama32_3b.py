"""The paper's Enigmata experiment with Llama-3.2-3B-Instruct.

Paper: Pass@k Training, appendix ``sec:app_exp``, table ``tab:app_enigmata`` ("+ P@k
T.", overall: Pass@1 11.5, Pass@k 14.1), which gives both limits.

Planned for 32 chips, 8 shares of the prompts by 4 of the rollouts:

    python -m passk_jax.plan --config=configs/enigmata_llama32_3b.py \\
        --topology=v5p:2x4x4

HBM a chip: training 25.9, decoding 73.7 of 95.7 GiB. Table:
experiments/plans/.

The task ``enigmata`` is not in this repository yet: planning runs today, training
once ``passk_jax.tasks.TASKS`` has it. Then, on every host, with a workdir they all see:

    python -m passk_jax.train --config=configs/enigmata_llama32_3b.py \\
        --workdir=/shared/enigmata_llama32_3b

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
    config.name = 'enigmata_llama32_3b'
    config.model.source = 'meta-llama/Llama-3.2-3B-Instruct'
    config.mesh.update(fsdp=8, rollout=4, tensor=1)
    config.task.name = 'enigmata'
    config.data.max_prompt_tokens = 4096
    config.sampling.max_response_tokens = 4096
    config.train.micro_batch_prompts = 8
    return config
