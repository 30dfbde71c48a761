"""The paper's mathematics experiments: Pass@k Training, analytical, of four models.

Paper: Pass@k Training, appendix ``sec:app_exp``, table ``tab:app_math``. Each function
below configures one model; it names the model's row in the table ("+ P@k T.", average)
and the chips planned for it. The argument ``model`` chooses the model:

    python -m passk_jax.plan --config=configs/math.py:model=llama31_8b \\
        --topology=v5p:4x4x4

The plans are in experiments/plans/. To train, on every host, with a workdir that all
hosts share and the problems in one directory:

    python -m passk_jax.train --config=configs/math.py:model=llama31_8b \\
        --workdir=/shared/math_llama31_8b --config.data.dir=/shared/problems

Each file is JSON lines with the fields ``problem`` and ``answer``; ``task.params`` may
name others. ``aime/`` holds AIME 2024 and 2025 of eth-sri/matharena, ``olymmath/``
OlymMATH in English of RUCAIBox/OlymMATH, and ``math_train/`` MATH and AIME 1983 to 2023
of agentica-project/deepscaler.

Time and result: see experiments/README.md, which says what was run and on which
hardware.

For Pass@1 Training add ``--config.advantage.name=pass_at_1``. For Pass@1 Training after
Pass@k Training (section ``sec:passk_to_pass1``), also add
``--config.init.kind=checkpoint --config.init.checkpoint=<workdir>``.

What the paper does differently:

* It trains on the data of arXiv 2503.04548, which are on a hub; here they are 8,158
  problems from a public repository. To use the paper's, set
  ``--config.task.params.train_files`` to a name such as
  ``hf://datasets/RUC-AIBOX/STILL-3-RL-90K@COMMIT/PATH``, and ``problem_field`` and
  ``answer_field`` to its fields. Data sets in verl's form, such as DAPO-Math-17k, have
  ``prompt`` and ``reward_model.ground_truth``. Their prompts have instructions, to
  which ours are added unless ``--config.data.instruction=''``.
* We do not know its prompt; this is the one of OlymMATH's own evaluation.

The paper gives both limits for the Llama models. For the R1-Distill models it extends
the response to 10240 tokens; their prompt limit is 2048 here, as for the Llama models.
"""

from ml_collections import ConfigDict

from configs import arguments, base


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration of ``model=<one of MODELS>``."""
    model = arguments.parse(argument, choices={'model': MODELS})['model']
    config = base.get_config()
    config.name = f'math_{model}'
    config.task.name = 'math'
    config.task.params = {
        'train_files': (
            'math_train/math_train.jsonl',
            'math_train/aime_1983_2023.jsonl',
        ),
        # MATH-500 would serve, but shares three problems with AIME 1983 to 2023.
        'validation_files': (),
        # Every file is a category, so that each benchmark has its own numbers.
        'test_files': (
            'aime/aime_2024.jsonl',
            'aime/aime_2025.jsonl',
            'olymmath/OlymMATH-EN-EASY.jsonl',
            'olymmath/OlymMATH-EN-HARD.jsonl',
        ),
        'problem_field': 'problem',
        'answer_field': 'answer',
        'id_fields': ('id', 'unique_id'),
    }
    config.data.max_prompt_tokens = 2048
    MODELS[model](config)
    return config


def llama32_3b(config: ConfigDict) -> None:
    """Llama-3.2-3B-Instruct: Pass@1 5.0, Pass@k 15.4.

    Planned for 64 chips, 16 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/math.py:model=llama32_3b \\
            --topology=v5p:4x4x4

    HBM per chip: training 33.2, decoding 46.4 of 95.7 GiB.
    """
    config.model.source = 'meta-llama/Llama-3.2-3B-Instruct'
    config.mesh.update(fsdp=16, rollout=4, tensor=1, decode_tensor=4)
    config.sampling.max_response_tokens = 6144
    config.train.micro_batch_prompts = 16


def llama31_8b(config: ConfigDict) -> None:
    """Llama-3.1-8B-Instruct: Pass@1 3.0, Pass@k 17.0.

    Planned for 64 chips, 16 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/math.py:model=llama31_8b \\
            --topology=v5p:4x4x4

    HBM per chip: training 29.3, decoding 58.4 of 95.7 GiB.
    """
    config.model.source = 'meta-llama/Llama-3.1-8B-Instruct'
    config.mesh.update(fsdp=16, rollout=4, tensor=1, decode_tensor=4)
    config.sampling.max_response_tokens = 6144
    config.train.micro_batch_prompts = 16


def r1_distill_15b(config: ConfigDict) -> None:
    """DeepSeek-R1-Distill-Qwen-1.5B: Pass@1 20.9, Pass@k 52.9.

    The row "(P@k T. + P@1 T.) x 2" is four runs, each of which starts from the
    checkpoint of the previous one.

    Planned for 32 chips, 8 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/math.py:model=r1_distill_15b \\
            --topology=v5p:2x4x4

    HBM per chip: training 12.6, decoding 39.9 of 95.7 GiB. Or, on 32
    chips of 15.75 GiB: training 14.5, decoding 11.1

        python -m passk_jax.plan --config=configs/math.py:model=r1_distill_15b \\
            --topology=v5e:4x8 --config.train.micro_batch_rollouts=8 \\
            --config.sampling.max_cache_bytes=8000000000
    """
    config.model.source = 'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B'
    config.mesh.update(fsdp=8, rollout=4, tensor=1, decode_tensor=2)
    config.sampling.max_response_tokens = 10_240
    config.train.micro_batch_prompts = 8


def r1_distill_7b(config: ConfigDict) -> None:
    """DeepSeek-R1-Distill-Qwen-7B: Pass@1 29.0, Pass@k 60.9.

    Planned for 64 chips, 16 prompt shares x 4 rollout shares:

        python -m passk_jax.plan --config=configs/math.py:model=r1_distill_7b \\
            --topology=v5p:4x4x4

    HBM per chip: training 71.0, decoding 44.2 of 95.7 GiB.
    """
    config.model.source = 'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B'
    config.mesh.update(fsdp=16, rollout=4, tensor=1, decode_tensor=4)
    config.sampling.max_response_tokens = 10_240
    config.train.micro_batch_prompts = 16


MODELS = {
    model.__name__: model
    for model in (llama32_3b, llama31_8b, r1_distill_15b, r1_distill_7b)
}
