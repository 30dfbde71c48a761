import numpy as np
import pytest
import torch
import transformers

from passk_jax.data.positions import count_tokens, picture_positions

IMAGE = 9
OPTIONS = {'image_token': IMAGE, 'merge_size': 2}


def prompt(*parts):
    """Numbers are runs of text, pairs the grids of pictures."""
    runs = [
        np.arange(part) % IMAGE
        if isinstance(part, int)
        else np.full(count_tokens(part, merge_size=2), IMAGE)
        for part in parts
    ]
    return np.concatenate(runs), [part for part in parts if not isinstance(part, int)]


@pytest.mark.parametrize(
    'parts',
    [
        (3, (4, 6), 2, (2, 2), 1, (10, 4), 5),
        ((2, 8), 4),
        (1, (8, 2), 1),
        (6,),
    ],
)
def test_positions_are_those_of_transformers(parts):
    tokens, grids = prompt(*parts)
    config = transformers.AutoConfig.for_model('qwen3_vl')
    model = transformers.Qwen3VLModel
    # It needs no parameters.
    reference = model.__new__(model)
    torch.nn.Module.__init__(reference)
    reference.config = config
    ids = torch.tensor(tokens)[None]
    want, delta = reference.get_rope_index(
        ids,
        mm_token_type_ids=(ids == IMAGE).int(),
        image_grid_thw=torch.tensor([(1, *grid) for grid in grids]) if grids else None,
    )
    have = picture_positions(tokens, grids, **OPTIONS)
    np.testing.assert_array_equal(have.T, want[:, 0])
    assert have[-1, 0] + 1 == len(tokens) + int(delta)


@pytest.mark.parametrize(
    ('tokens', 'grids', 'words'),
    [
        ([1, 2], [(2, 2)], r'need runs of \[1\] image tokens .* has \[\]'),
        ([1, 9, 2], [], r'need runs of \[\] image tokens .* has \[1\]'),
        ([1, 9, 9, 2], [(2, 2)], r'need runs of \[1\] .* has \[2\]'),
        ([1, 9, 9, 2], [(2, 2), (2, 2)], r'runs of \[1, 1\] .* has \[2\]'),
        ([1, 9, 2, 9, 9, 3], [(2, 4), (2, 2)], r'of \[2, 1\] .* has \[1, 2\]'),
        ([1, 9], [(2, 2)], 'its last token must be text'),
    ],
)
def test_a_prompt_without_the_right_places_is_refused(tokens, grids, words):
    with pytest.raises(ValueError, match=words):
        picture_positions(np.array(tokens), grids, **OPTIONS)
