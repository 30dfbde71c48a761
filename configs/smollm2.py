"""Pass@k Training of SmolLM2-135M-Instruct, a language model, on one CPU core.

Paper: Pass@k Training, sections ``sec:passk_w_analytical_derivation`` and
``sec:passk_to_pass1``, with a published language model at the size of a laptop: five
sets of reasoning-gym with short answers, of which the model knows some by chance. One
run is a warm start that teaches only the form of an answer (16 steps of 8
demonstrations), and then RL.

With the hub, the published weights:

    python -m passk_jax.train --config=configs/smollm2.py --workdir=runs/smollm2_hub

Without it, those of experiments/smollm2.py, which were quantized to four bits:

    python -m passk_jax.train --config=configs/smollm2.py:source=models/smollm2 \\
        --workdir=runs/smollm2_one

Both need the package reasoning-gym: ``pip install -e '.[reasoning-gym]'``. For
Pass@1 Training add ``--config.advantage.name=pass_at_1``.

On a TPU or GPU, another instruction-tuned model, with settings for such chips and room
for its tokens; experiments/plans/chips.md says which model fits which chip:

    python -m passk_jax.train --workdir=runs/qwen \\
        --config=configs/smollm2.py:source=Qwen/Qwen2.5-0.5B-Instruct,on=chip

To evaluate a policy on sets that it was never trained on:

    python -m passk_jax.evaluate --workdir=runs/smollm2_one --split=test \\
        --task=configs/smollm2.py:sets=out_of_domain

Time and result: see experiments/README.md; one run takes about an hour of a core.

The sets differ in how far guessing goes. ``simple_equations`` has 10 answers,
``count_primes`` 16 and ``chain_sum`` 45; ``lcm`` has 231 and ``prime_factorization``
499. Training problems do not repeat, 100 steps see half of them once, and the other
splits have different ones. Of the sets that are never trained on, ``products`` has many
answers; ``calendar_arithmetic`` and ``gcd`` have dozens, of which a third of ``gcd``'s
are 1. Guessing pays where answers are few: ``family_relationships`` (12),
``count_bits`` (9), ``letter_counting`` (8, more than half of them 1) and ``aiw`` (6).

With ``sets=many`` ``products`` and ``calendar_arithmetic`` are trained on, and 200
steps see 1,600 of the 1,800 training problems.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from configs import arguments, base

SOURCE = 'HuggingFaceTB/SmolLM2-135M-Instruct'

SETS: Mapping[str, Mapping[str, Any]] = {
    'lcm': {'min_numbers': 2, 'max_numbers': 2, 'min_value': 1, 'max_value': 30},
    'chain_sum': {'min_terms': 2, 'max_terms': 3, 'min_digits': 1, 'max_digits': 1},
    'simple_equations': {
        'min_terms': 2,
        'max_terms': 2,
        'min_value': 1,
        'max_value': 10,
    },
    'prime_factorization': {'min_value': 2, 'max_value': 500},
    'count_primes': {'min_n': 1, 'max_n': 50},
}
OUT_OF_DOMAIN: Mapping[str, Mapping[str, Any]] = {
    'products': {'min_terms': 2, 'max_terms': 2, 'min_digits': 1, 'max_digits': 2},
    'gcd': {'min_numbers': 2, 'max_numbers': 2, 'min_value': 1, 'max_value': 60},
    'calendar_arithmetic': {},
    'family_relationships': {},
    'count_bits': {'min_n': 1, 'max_n': 1000},
    'letter_counting': {'min_words': 3, 'max_words': 6},
    'aiw': {},
}
# Fifteen sets, of which no answer is right for more than a quarter of the problems and
# of which the first policy solves some in sixteen attempts.
MANY: Mapping[str, Mapping[str, Any]] = {
    **SETS,
    'base_conversion': {
        'min_base': 2,
        'max_base': 10,
        'min_value': 1,
        'max_value': 30,
    },
    'basic_arithmetic': {
        'min_terms': 2,
        'max_terms': 2,
        'min_digits': 1,
        'max_digits': 1,
    },
    'calendar_arithmetic': OUT_OF_DOMAIN['calendar_arithmetic'],
    'color_cube_rotation': {},
    'decimal_chain_sum': {
        'min_terms': 2,
        'max_terms': 2,
        'min_digits': 1,
        'max_digits': 1,
        'min_decimal_places': 1,
        'max_decimal_places': 1,
    },
    'leg_counting': {
        'min_animals': 1,
        'max_animals': 2,
        'min_instances': 1,
        'max_instances': 4,
    },
    'number_sequence': {'min_terms': 4, 'max_terms': 5, 'max_complexity': 1},
    'power_function': {
        'min_base': 1,
        'max_base': 9,
        'min_exponent': 1,
        'max_exponent': 2,
    },
    'products': OUT_OF_DOMAIN['products'],
    'spell_backward': {'min_word_len': 3, 'max_word_len': 4},
}


def _counts(train: int, validation: int, test: int) -> dict[str, int]:
    """Returns the problems of each set. ``prime_factorization`` has 499 in all."""
    return {
        'train_count': train,
        # The validation split is for tuning, and the test split for results.
        'validation_count': validation,
        'test_count': test,
    }


# Argument -> the task's parameters and room for the longest prompt, which has 87, 169
# and 163 tokens.
_PROBLEMS: Mapping[str, tuple[Mapping[str, Any], int]] = {
    'trained': ({'sets': SETS, **_counts(320, 16, 128)}, 88),
    'many': ({'sets': MANY, **_counts(120, 16, 64)}, 176),
    'out_of_domain': ({'sets': OUT_OF_DOMAIN, **_counts(0, 0, 128)}, 168),
}


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration of ``source=<directory or hub name>``.

    ``sets=many`` trains on fifteen sets. ``sets=out_of_domain`` is for evaluation: it
    has only a test split. ``on=chip`` has settings for a TPU or GPU.
    """
    values = arguments.parse(
        argument,
        defaults={'source': SOURCE, 'sets': 'trained', 'on': 'core'},
        choices={'sets': tuple(_PROBLEMS), 'on': ('core', 'chip')},
    )
    config = base.get_config()
    config.name = 'smollm2'
    _policy(config, values['source'])
    _problems(config, values['sets'])

    config.sampling.num_rollouts = 16
    config.advantage.name = 'pass_at_k'
    config.advantage.k = 4
    fit_one_core(config)

    config.eval.every = 50
    config.eval.split = 'validation'
    config.eval.final_split = 'test'
    config.eval.num_responses = 32
    # The paper's 0.95 would cut rare answers, which we want to measure.
    config.eval.top_p = 1.0

    config.checkpoint.every = 25
    config.log.rollouts_every = 25
    if values['on'] == 'chip':
        _on_chip(config)
    return config


def _policy(config: ConfigDict, source: str) -> None:
    """Sets the published model, warm-started in the same program."""
    config.model.source = source
    # As in the committed runs. With bfloat16, on cores that have it (avx512_bf16), a
    # step takes two thirds of the time (benchmarks/README.md).
    config.model.compute_dtype = 'float32'
    config.model.attention = 'plain'
    # Costs no time here (experiments/LOG.md).
    config.model.remat = 'gate_up'

    config.init.kind = 'warm_start'
    config.init.warm_start.demonstrations = 'solution'


def fit_one_core(config: ConfigDict) -> None:
    """Sets rates, steps and batches for a small language model on a CPU core."""
    # The warm start only teaches the form of an answer. The rate of a policy from
    # scratch would destroy the model's knowledge.
    config.init.warm_start.steps = 16
    config.init.warm_start.batch_size = 8
    config.init.warm_start.optimizer.learning_rate = 5e-5
    config.init.warm_start.optimizer.warmup_updates = 4
    # Chosen by experiments/sweeps/smollm2_rates.py for both trainings.
    config.optimizer.learning_rate = 1e-5
    config.train.steps = 100
    config.train.num_prompts = config.train.mini_batch_prompts = 8
    # A prompt with its responses fills a core; two need twice the memory.
    config.train.micro_batch_prompts = 1
    config.model.head_chunk_tokens = 256
    config.eval.batch_size = 8
    # 1.6 GB each.
    config.checkpoint.keep = 1


def _on_chip(config: ConfigDict) -> None:
    """Takes the settings of base.py for chips, with room for any model's tokens.

    Tokenizers and chat templates differ in length, so the limit of a prompt is the next
    power of two.
    """
    for name in ('compute_dtype', 'attention', 'remat', 'head_chunk_tokens'):
        config.model[name] = base.get_config().model[name]
    config.train.micro_batch_prompts = 8
    config.data.max_prompt_tokens = 1 << config.data.max_prompt_tokens.bit_length()
    config.sampling.max_response_tokens = 64
    config.eval.batch_size = 64
    # Each has three times the weights in float32.
    config.checkpoint.every = 50


def _problems(config: ConfigDict, sets: str) -> None:
    """Sets the problems, and the lengths of their prompts and answers."""
    problems, config.data.max_prompt_tokens = _PROBLEMS[sets]
    config.task.name = 'reasoning_gym'
    config.task.params = ConfigDict({**problems, 'seed': 0})
    config.data.overlong = 'error'
    # Eight factors have 29 tokens with their tags, and three answers fill a row.
    config.sampling.max_response_tokens = 30
