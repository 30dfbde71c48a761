"""Pass@k Training of policies that read pictures: Qwen3-VL, dense or with experts, and
Qwen2.5-VL.

Paper: Pass@k Training, table ``tab:main_seedvl``, whose policy reads pictures, has
experts and no published weights. Here are published models of that kind on one of the
table's tasks, MathVision (https://github.com/mathllm/MATH-V). The argument ``model``
chooses one:

    python -m passk_jax.plan --config=configs/vision.py:model=qwen3_vl_30b_a3b \\
        --topology=v5p:4x4x4

Then, on every host, with a workdir that all hosts share:

    python -m passk_jax.train --config=configs/vision.py:model=qwen3_vl_30b_a3b \\
        --workdir=/shared/vision_qwen3_vl_30b_a3b

The paper does not name the problems that it trained on. Four fifths of MathVision's
stand in for them, so results say nothing about the benchmark.

The tower is frozen and reads each picture once a step. To train it too, add
``--config.model.train_vision=True``. A picture has at most 786,432 pixels, which is 768
tokens of Qwen3-VL and 1,003 of Qwen2.5-VL.

Time and result: nothing was run.
"""

from ml_collections import ConfigDict

from configs import arguments, base
from passk_jax.tasks import task_class


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration of ``model=<one of MODELS>``."""
    model = arguments.parse(argument, choices={'model': MODELS})['model']
    config = base.get_config()
    config.name = f'vision_{model}'
    config.task.name = 'mathvision'
    example = task_class('mathvision').about.example
    config.task.params = ConfigDict({**example, 'train_percent': 80})
    config.data.max_prompt_tokens = 1536
    config.data.max_picture_pixels = 786_432
    config.sampling.max_response_tokens = 4096
    MODELS[model](config)
    return config


def _chips(config: ConfigDict, *, fsdp: int, rollout: int, tensor: int) -> None:
    """Sets a mesh; a pass has one prompt for each share of ``fsdp``."""
    config.mesh.update(data=1, fsdp=fsdp, rollout=rollout, tensor=tensor)
    config.train.micro_batch_prompts = fsdp


def qwen3_vl_2b(config: ConfigDict) -> None:
    """Qwen3-VL-2B-Instruct: 28 layers, tower of 24 blocks; 2.1 billion parameters."""
    config.model.source = 'Qwen/Qwen3-VL-2B-Instruct'
    _chips(config, fsdp=16, rollout=2, tensor=1)


def qwen3_vl_4b(config: ConfigDict) -> None:
    """Qwen3-VL-4B-Instruct: 36 layers, tower of 24 blocks; 4.4 billion parameters."""
    config.model.source = 'Qwen/Qwen3-VL-4B-Instruct'
    _chips(config, fsdp=16, rollout=2, tensor=1)


def qwen3_vl_8b(config: ConfigDict) -> None:
    """Qwen3-VL-8B-Instruct: 36 layers, tower of 27 blocks; 8.8 billion parameters."""
    config.model.source = 'Qwen/Qwen3-VL-8B-Instruct'
    _chips(config, fsdp=16, rollout=4, tensor=1)


def qwen3_vl_30b_a3b(config: ConfigDict) -> None:
    """Qwen3-VL-30B-A3B-Instruct: 128 experts in each of 48 layers, tower of 27 blocks.

    A token runs 8 experts: 3.3 of the 30.5 billion parameters of the decoder. It is the
    open model that is nearest to the paper's.
    """
    config.model.source = 'Qwen/Qwen3-VL-30B-A3B-Instruct'
    _chips(config, fsdp=16, rollout=1, tensor=4)


def qwen25_vl_3b(config: ConfigDict) -> None:
    """Qwen2.5-VL-3B-Instruct: 36 layers, tower of 32 blocks; 3.8 billion parameters."""
    config.model.source = 'Qwen/Qwen2.5-VL-3B-Instruct'
    _chips(config, fsdp=16, rollout=2, tensor=1)


def qwen25_vl_7b(config: ConfigDict) -> None:
    """Qwen2.5-VL-7B-Instruct: 28 layers, tower of 32 blocks; 8.3 billion parameters."""
    config.model.source = 'Qwen/Qwen2.5-VL-7B-Instruct'
    _chips(config, fsdp=16, rollout=4, tensor=1)


MODELS = {
    model.__name__: model
    for model in (
        *(qwen3_vl_2b, qwen3_vl_4b, qwen3_vl_8b, qwen3_vl_30b_a3b),
        *(qwen25_vl_3b, qwen25_vl_7b),
    )
}
