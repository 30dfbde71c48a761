"""The paper's Enigmata experiments: Pass@k Training, analytical, of four models.

Paper: Pass@k Training, section ``sec:passk_to_pass1`` and appendix ``sec:app_exp``.
Each function below configures one model; it names the model's row in the paper and the
chips planned for it. The argument ``model`` chooses the model:

    python -m passk_jax.plan --config=configs/enigmata.py:model=qwen25_7b \\
        --topology=v5p:4x4x4

The plans are in experiments/plans/. Then, on every host, with a workdir that all hosts
share:

    python -m passk_jax.train --config=configs/enigmata.py:model=qwen25_7b \\
        --workdir=/shared/enigmata_qwen25_7b

The problems of 31 of Enigmata's 36 puzzles come from our generators. The other five
read local files; ``task.params.puzzles`` may name them too. The problems are not
Enigmata's, so results are only roughly comparable with the paper's.

Time and result: see experiments/README.md, which says what was run and on which
hardware.

For Pass@1 Training add ``--config.advantage.name=pass_at_1``. For Pass@1 Training after
Pass@k Training (section ``sec:passk_to_pass1``), also add
``--config.init.kind=checkpoint --config.init.checkpoint=<workdir>``.

The paper gives the limits of prompt and response for the Llama models only; the Qwen2.5
models use the same here. It does not give k, which is 4, as for its mazes
(configs/maze.py).
"""

from ml_collections import ConfigDict

from configs import arguments, base
from passk_jax.tasks.enigmata.table import PUZZLES


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration of ``model=<one of MODELS>``."""
    model = arguments.parse(argument, choices={'model': MODELS})['model']
    config = base.get_config()
    config.name = f'enigmata_{model}'
    config.task.name = 'enigmata'
    config.task.params = _params()
    config.data.max_prompt_tokens = 4096
    config.sampling.max_response_tokens = 4096
    MODELS[model](config)
    return config


def _params() -> ConfigDict:
    """Returns every puzzle and level; the paper gives no number of problems."""
    return ConfigDict(
        {
            'puzzles': tuple(PUZZLES),
            'levels': ('easy', 'medium', 'hard'),
            'train_count': 200,
            'validation_count': 0,
            # Enigmata-Eval has at most as many of each task and level.
            'test_count': 50,
            'seed': 0,
            'prompt': 'instruct',
        }
    )


def qwen25_7b(config: ConfigDict) -> None:
    """Qwen2.5-7B-Instruct, the paper's main model on this task.

    Table ``tab:main_qwen`` ("+ P@k T.", overall: Pass@1 17.9, Pass@k 29.8); the same
    runs appear with other tasks in table ``tab:generalization``.

    Planned for 64 chips, 16 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/enigmata.py:model=qwen25_7b \\
            --topology=v5p:4x4x4

    HBM per chip: training 30.8, decoding 23.4 of 95.7 GiB. Or, on 256
    chips of 15.75 GiB: training 11.9, prefill 10.9, decoding 10.6

        python -m passk_jax.plan --config=configs/enigmata.py:model=qwen25_7b \\
            --topology=v5e:16x16 --config.mesh.fsdp=8 --config.mesh.rollout=8 \\
            --config.mesh.tensor=4 --config.train.micro_batch_prompts=8
    """
    config.model.source = 'Qwen/Qwen2.5-7B-Instruct'
    config.mesh.update(fsdp=16, rollout=4, tensor=1, decode_tensor=4)
    config.train.micro_batch_prompts = 16


def qwen25_32b(config: ConfigDict) -> None:
    """Qwen2.5-32B-Instruct.

    Table ``tab:main_qwen`` ("+ P@k T.", overall: Pass@1 44.5, Pass@k 57.4).

    Planned for 128 chips, 8 prompt shares x 4 rollout shares x 4 tensor shards:

        python -m passk_jax.plan --config=configs/enigmata.py:model=qwen25_32b \\
            --topology=v5p:4x4x8

    HBM per chip: training 31.1, decoding 53.2 of 95.7 GiB.
    """
    config.model.source = 'Qwen/Qwen2.5-32B-Instruct'
    config.mesh.update(fsdp=8, rollout=4, tensor=4, decode_tensor=8)
    config.train.micro_batch_prompts = 8


def llama32_3b(config: ConfigDict) -> None:
    """Llama-3.2-3B-Instruct.

    Table ``tab:app_enigmata`` ("+ P@k T.", overall: Pass@1 11.5, Pass@k 14.1).

    Planned for 32 chips, 8 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/enigmata.py:model=llama32_3b \\
            --topology=v5p:2x4x4

    HBM per chip: training 18.1, decoding 64.1 of 95.7 GiB.
    """
    config.model.source = 'meta-llama/Llama-3.2-3B-Instruct'
    config.mesh.update(fsdp=8, rollout=4, tensor=1, decode_tensor=4)
    config.train.micro_batch_prompts = 8


def llama31_8b(config: ConfigDict) -> None:
    """Llama-3.1-8B-Instruct.

    Table ``tab:app_enigmata`` ("+ P@k T.", overall: Pass@1 9.9, Pass@k 13.0).

    Planned for 64 chips, 16 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/enigmata.py:model=llama31_8b \\
            --topology=v5p:4x4x4

    HBM per chip: training 27.8, decoding 42.8 of 95.7 GiB.
    """
    config.model.source = 'meta-llama/Llama-3.1-8B-Instruct'
    config.mesh.update(fsdp=16, rollout=4, tensor=1, decode_tensor=4)
    config.train.micro_batch_prompts = 16


MODELS = {
    model.__name__: model for model in (qwen25_7b, qwen25_32b, llama32_3b, llama31_8b)
}
