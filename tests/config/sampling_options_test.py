"""An option of the sampler is declared once, and everything that has options has it."""

import dataclasses
import json

import jax
import pytest

from configs import maze_tiny
from passk_jax import config as config_lib
from passk_jax.config import EvalConfig, SamplingConfig, SamplingOptions
from passk_jax.config.sampling_options import sampling_options
from passk_jax.sampling.distribution import traced_options

FIELDS = dataclasses.fields(SamplingOptions)
OPTIONS = sampling_options(temperature=0.5, top_p=0.9, top_k=7)


def test_training_and_evaluation_have_every_option_with_its_range():
    for section in (SamplingConfig, EvalConfig):
        names = {field.name for field in dataclasses.fields(section)}
        assert names > {field.name for field in FIELDS}
    assert all(callable(field.metadata['holds']) for field in FIELDS)


def test_the_options_of_a_section_are_its_own():
    config = maze_tiny.get_config()
    config.eval.temperature, config.eval.top_p, config.eval.top_k = 0.5, 0.9, 7
    config = config_lib.from_config_dict(config)
    assert config.eval.options == OPTIONS
    assert type(config.eval.options) is SamplingOptions
    assert config.sampling.options == sampling_options()
    again = config_lib.from_json_dict(json.loads(config_lib.to_json(config)))
    assert again == config


def test_every_option_is_traced_and_another_value_is_no_other_program():
    leaves = jax.tree.leaves(traced_options(OPTIONS, vocab_size=12))
    assert len(leaves) == len(FIELDS)
    assert [x.item() for x in leaves] == pytest.approx([0.5, 0.9, 7, 0])
    seen = []
    program = jax.jit(lambda options: seen.append(options) or options.top_p)
    for top_p in (0.2, 0.7):
        options = dataclasses.replace(OPTIONS, top_p=top_p)
        assert program(traced_options(options, vocab_size=12)) == pytest.approx(top_p)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ('changes', 'greedy', 'truncates'),
    [
        ({'temperature': 0.0, 'top_p': 1.0, 'top_k': 0}, True, False),
        ({'top_p': 1.0, 'top_k': 0}, False, False),
        ({'top_p': 1.0}, False, True),
        ({'top_k': 0}, False, True),
        ({'top_p': 1.0, 'top_k': 0, 'min_p': 0.1}, False, True),
    ],
)
def test_what_needs_another_program_is_said_once(changes, greedy, truncates):
    options = dataclasses.replace(OPTIONS, **changes)
    assert (options.greedy, options.truncates) == (greedy, truncates)
