"""The paper's Enigmata experiment with Qwen2.5-32B-Instruct.

Paper: Pass@k Training, section ``sec:passk_to_pass1``, table ``tab:main_qwen`` ("+ P@k
T.", overall: Pass@1 44.5, Pass@k 57.4).

Planned for 128 chips, 8 shares of the prompts by 4 of the rollouts by 4 of the heads:

    python -m passk_jax.plan --config=configs/enigmata_qwen25_32b.py \\
        --topology=v5p:4x4x8

HBM a chip: training 44.6, prefill 46.3, decoding 62.9 of 95.7 GiB. Table:
experiments/plans/.

The task ``enigmata`` is not in this repository yet: planning runs today, training
once ``passk_jax.tasks.TASKS`` has it. Then, on every host, with a workdir they all see:

    python -m passk_jax.train --config=configs/enigmata_qwen25_32b.py \\
        --workdir=/shared/enigmata_qwen25_32b

Time and result: see experiments/README.md, which says what was run and on what.

For Pass@1 Training add ``--config.advantage.name=pass_at_1``; for Pass@1 Training after
Pass@k Training (section ``sec:passk_to_pass1``) add
``--config.init.kind=checkpoint --config.init.checkpoint=<workdir>`` too.

Limits and k: see configs/enigmata_qwen25_7b.py.
"""

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = base.get_config()
    config.name = 'enigmata_qwen25_32b'
    config.model.source = 'Qwen/Qwen2.5-32B-Instruct'
    config.mesh.update(fsdp=8, rollout=4, tensor=4)
    config.task.name = 'enigmata'
    config.data.max_prompt_tokens = 4096
    config.sampling.max_response_tokens = 4096
    config.train.micro_batch_prompts = 8
    return config
