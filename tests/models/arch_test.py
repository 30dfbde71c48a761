import dataclasses

import pytest

from passk_jax.config import ModelConfig
from passk_jax.models.arch import REMAT
from tests.models import oracle


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'num_kv_heads': 3}, 'num_heads=4.*multiple.*num_kv_heads=3'),
        ({'head_dim': 7}, 'head_dim=7'),
        ({'num_layers': 0}, 'num_layers=0'),
        ({'norm_eps': -1.0}, 'norm_eps=-1.0'),
        ({'windows': (4, -1)}, r'windows=\(4, -1\) must be 0 or positive'),
        ({'windows': ()}, r'windows=\(\) must be'),
        ({'windows': (0, 0, 4)}, r'windows=\(0, 0, 4\) .* num_layers=2'),
        ({'remat': 'some'}, "'some' is none of .*'attention'"),
        ({'attention': 'flash'}, "'flash' is none of .*'splash'"),
    ],
)
def test_impossible_sizes_and_unknown_names_are_refused(change, words):
    with pytest.raises(ValueError, match=words) as error:
        oracle.tiny_arch(**change)
    assert 'self' not in str(error.value)


def test_what_the_config_may_say_of_remat_is_what_the_network_knows():
    fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
    assert fields['remat'].metadata['choices'] == REMAT
