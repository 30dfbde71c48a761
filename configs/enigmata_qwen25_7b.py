"""The paper's Enigmata experiment: Qwen2.5-7B-Instruct, Pass@k Training, analytical.

Paper: Pass@k Training, section ``sec:passk_to_pass1``, table ``tab:main_qwen`` ("+ P@k
T.", overall: Pass@1 17.9, Pass@k 29.8); the same runs, on other tasks, in table
``tab:generalization``.

Planned for 64 chips, 16 shares of the prompts by 4 of the rollouts:

    python -m passk_jax.plan --config=configs/enigmata_qwen25_7b.py \\
        --topology=v5p:4x4x4

HBM a chip: training 41.4, prefill 35.9, decoding 35.4 of 95.7 GiB. Or on 256 chips
of 15.75 GiB: training 11.7, prefill 14.1, decoding 10.7

    python -m passk_jax.plan --config=configs/enigmata_qwen25_7b.py \\
        --topology=v5e:16x16 --config.mesh.fsdp=8 --config.mesh.rollout=8 \\
        --config.mesh.tensor=4 --config.train.micro_batch_prompts=8

Tables: experiments/plans/.

The task ``enigmata`` is not in this repository yet: planning runs today, training
once ``passk_jax.tasks.TASKS`` has it. Then, on every host, with a workdir they all see:

    python -m passk_jax.train --config=configs/enigmata_qwen25_7b.py \\
        --workdir=/shared/enigmata_qwen25_7b

Time and result: see experiments/README.md, which says what was run and on what.

For Pass@1 Training add ``--config.advantage.name=pass_at_1``; for Pass@1 Training after
Pass@k Training (section ``sec:passk_to_pass1``) add
``--config.init.kind=checkpoint --config.init.checkpoint=<workdir>`` too.

The paper gives limits of prompt and response only for the Llama models on this task;
they are taken for Qwen2.5 too. Its k is not given: 4, as in configs/base.py.
"""

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = base.get_config()
    config.name = 'enigmata_qwen25_7b'
    config.model.source = 'Qwen/Qwen2.5-7B-Instruct'
    config.mesh.update(fsdp=16, rollout=4, tensor=1)
    config.task.name = 'enigmata'
    config.data.max_prompt_tokens = 4096
    config.sampling.max_response_tokens = 4096
    config.train.micro_batch_prompts = 16
    return config
