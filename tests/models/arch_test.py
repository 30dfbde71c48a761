import dataclasses

import pytest

from passk_jax.config import ModelConfig
from passk_jax.models.arch import REMAT, Layer
from passk_jax.models.rope import Rope
from tests.models import oracle


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'num_kv_heads': 3}, 'num_heads=4.*multiple.*num_kv_heads=3'),
        ({'head_dim': 7}, 'head_dim=7'),
        ({'num_layers': 0}, 'num_layers=0'),
        ({'norm_eps': -1.0}, 'norm_eps=-1.0'),
        ({'windows': (4, -1)}, 'window=-1 must be 0 or positive'),
        ({'windows': ()}, 'a pattern of 0 layers must repeat'),
        ({'windows': (0, 0, 4)}, 'a pattern of 3 layers .* num_layers=2'),
        ({'remat': 'some'}, "'some' is none of .*'attention'"),
        ({'attention': 'flash'}, "'flash' is none of .*'splash'"),
    ],
)
def test_impossible_sizes_and_unknown_names_are_refused(change, words):
    with pytest.raises(ValueError, match=words) as error:
        oracle.tiny_arch(**change)
    assert 'self' not in str(error.value)


def test_impossible_layers_are_refused():
    rope = Rope(kind='default', theta=1e4)
    kinds = Layer(rope), Layer(rope, feed_forward='experts')
    with pytest.raises(ValueError, match=r"parts \['experts', 'swiglu'\]; .* one kind"):
        dataclasses.replace(oracle.tiny_arch(), layers=kinds)


def test_a_pattern_of_layers_repeats():
    arch = oracle.tiny_arch(windows=(0, 3), num_layers=6)
    assert [layer.window for layer in arch.all_layers] == [0, 3, 0, 3, 0, 3]
    assert hash(arch) == hash(oracle.tiny_arch(windows=(0, 3), num_layers=6))


def test_what_the_config_may_say_of_remat_is_what_the_network_knows():
    fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
    assert fields['remat'].metadata['choices'] == REMAT
