"""docs/coming_from.md: every flag of a GRPO script, and keys that are there."""

import re

import pytest
from absl import flags as absl_flags

from configs import base
from passk_jax import config as configs
from passk_jax import train
from passk_jax.cli import flags
from tests.tiny import ROOT

PAGE = (ROOT / 'docs' / 'coming_from.md').read_text()
KEYS = configs.flatten(base.get_config().to_dict())
TRL = '1.16.0'
# The fields that GRPOConfig of that version has besides those of TrainingArguments.
FIELDS = re.findall(
    r'\w+',
    """
learning_rate model_init_kwargs trust_remote_code router_aux_loss_coef
disable_dropout cast_lm_head_to_fp32 remove_unused_columns num_generations
num_generations_eval max_completion_length ds3_gather_for_generation shuffle_dataset
pad_to_multiple_of generation_batch_size steps_per_generation temperature top_p top_k
min_p generation_kwargs chat_template_kwargs repetition_penalty cache_implementation
use_vllm vllm_mode vllm_model_impl vllm_enable_sleep_mode
vllm_structured_outputs_regex vllm_server_base_url vllm_server_host vllm_server_port
vllm_server_timeout vllm_group_port vllm_gpu_memory_utilization vllm_max_model_length
vllm_tensor_parallel_size beta num_iterations epsilon delta epsilon_high
sapo_temperature_neg sapo_temperature_pos vespo_k_pos vespo_lambda_pos vespo_k_neg
vespo_lambda_neg importance_sampling_level reward_weights multi_objective_aggregation
scale_rewards loss_type mask_truncated_completions sync_ref_model
ref_model_mixup_alpha ref_model_sync_steps top_entropy_quantile entropy_coef
use_adaptive_entropy entropy_coef_min entropy_coef_max entropy_coef_delta
entropy_target max_tool_calling_iterations vllm_importance_sampling_correction
vllm_importance_sampling_mode vllm_importance_sampling_clip_max
vllm_importance_sampling_clip_min off_policy_mask_threshold use_bias_correction_kl
log_completions log_multimodal num_completions_to_print log_unique_prompts
log_completions_hub_repo use_transformers_continuous_batching
transformers_continuous_batching_config use_transformers_paged
vllm_importance_sampling_cap
""",
)


def rows_of(title: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    text = PAGE.partition(f'## {title}\n')[2].partition('\n## ')[0]
    lines = [line for line in text.splitlines() if line.startswith('| `')]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in lines]


def names_in(cell: str) -> list[str]:
    return re.findall(r'`([^`]+)`', cell)


TABLES = ('TRL: GRPOConfig', 'verl', 'tunix')
ROWS = [row for title in TABLES for row in rows_of(title)]


def test_every_field_of_trl_is_on_the_page():
    listed = [name for row in rows_of('TRL: GRPOConfig') for name in names_in(row[0])]
    assert not set(FIELDS) - set(listed)
    assert len(listed) == len(set(listed)), 'a flag has one row'
    assert f'TRL {TRL}' in PAGE
    assert len(FIELDS) == 79


@pytest.mark.parametrize('title', TABLES)
def test_a_flag_has_one_row_that_says_what_it_is_here(title):
    listed = [name for row in rows_of(title) for name in names_in(row[0])]
    assert len(listed) == len(set(listed)) > 10
    for flags_cell, keys, *_ in rows_of(title):
        assert names_in(flags_cell)
        assert keys == 'none' or names_in(keys), flags_cell


@pytest.mark.parametrize('row', ROWS, ids=lambda row: row[0])
def test_a_key_of_the_page_is_one_of_the_config(row):
    names = [name for name in names_in(row[1]) if row[1] != 'none']
    # Sections whose keys are a task's own.
    wrong = {name.partition('=')[0] for name in names} - KEYS.keys() - {'task.params'}
    assert not wrong
    # In a remark, what has a dot and is ours.
    sections = {key.partition('.')[0] for key in KEYS if '.' in key}
    for cell in row[2:]:
        for name in names_in(cell):
            key = name.partition('=')[0]
            if key.partition('.')[0] in sections and '.' in key:
                assert key in KEYS, name


VALUES = sorted({name for name in names_in(PAGE) if re.fullmatch(r'[\w.]+=\w+', name)})


@pytest.mark.parametrize('value', VALUES)
def test_a_value_of_the_page_is_one_that_the_config_takes(value, monkeypatch):
    monkeypatch.chdir(ROOT)
    arguments = ['train', '--config=configs/maze_tiny.py', f'--config.{value}']
    parsed = flags.parse(train.main, arguments, absl_flags.FlagValues())
    key, _, text = value.partition('=')
    assert str(configs.flatten(configs.to_dict(parsed['config']))[key]) == text


def test_values_are_found():
    assert {'loss.kl_estimator=k3', 'advantage.name=dr_grpo'} <= {*VALUES}
