import numpy as np
import pytest
import torch
from transformers.vision_utils import (
    get_vision_position_ids,
    get_vision_window_index,
)

from passk_jax.models import patches
from tests.models.vision_test import GRIDS, PATCHES, make_images


def test_a_patch_has_its_place_in_its_picture():
    images = make_images()
    pictures, places, shapes = patches.locate(
        images.grids, num_patches=PATCHES, merge_size=2
    )
    for p, grids in enumerate(GRIDS):
        want = [
            (number, *place, *grid)
            for number, grid in enumerate(grids)
            for place in get_vision_position_ids(
                torch.tensor([[1, *grid]]), spatial_merge_size=2
            ).tolist()
        ]
        have = np.concatenate([pictures[p, :, None], places[p], shapes[p]], axis=-1)
        np.testing.assert_array_equal(have[: len(want)], np.reshape(want, (-1, 5)))
        # A pad is in none of the pictures.
        assert (pictures[p, len(want) :] == images.grids.shape[1]).all()


@pytest.mark.parametrize('side', [2, 4, 6, 64])
def test_a_window_is_a_square_of_its_picture(side):
    images = make_images()
    of_patches = patches.locate(images.grids, num_patches=PATCHES, merge_size=2)
    have = patches.windows(*of_patches, side=side)
    for p, grids in enumerate(GRIDS):
        where, ends = [], [0]
        for number, grid in enumerate(grids):
            sizes = torch.tensor([[1, *grid]])
            places = get_vision_position_ids(sizes, spatial_merge_size=2) // side
            where += [(number, *place) for place in places.tolist()]
            settings = {'spatial_merge_size': 2, 'patch_size': 4}
            _, borders = get_vision_window_index(
                sizes, window_size=4 * side, **settings
            )
            ends += [ends[-1] + len(borders) - 1]
        names, pads = np.split(np.asarray(have[p]), [len(where)])
        # One name for each window, one window for each name, and none for a pad.
        pairs = {*zip(where, names.tolist(), strict=True)}
        assert len(pairs) == len({*where}) == len({*names.tolist()}) == ends[-1]
        assert not {*names.tolist()} & {*pads.tolist()}
