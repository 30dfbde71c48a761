import json

import pytest
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
)

from passk_jax.data.pictures import Processor
from passk_jax.models.hf.processor import read_processor, stored_fields
from tests.models import oracle

# As published with Qwen3-VL, but for the size of a patch.
FIELDS = {
    'size': {'longest_edge': 16_777_216, 'shortest_edge': 65_536},
    'patch_size': 4,
    'temporal_patch_size': 2,
    'merge_size': 2,
    'image_mean': [0.5, 0.5, 0.5],
    'image_std': [0.5, 0.5, 0.5],
    'processor_class': 'Qwen3VLProcessor',
    'image_processor_type': 'Qwen2VLImageProcessorFast',
}


def read(directory, limit=0, **changes):
    fields = {k: v for k, v in (FIELDS | changes).items() if v is not None}
    (directory / 'preprocessor_config.json').write_text(json.dumps(fields))
    return read_processor(str(directory), oracle.VISION, max_pixels=limit)


def test_a_published_file_is_read(tmp_path):
    half = (0.5, 0.5, 0.5)
    assert read(tmp_path) == Processor(4, 2, 65_536, 16_777_216, half, half)


def test_older_files_name_the_limits_otherwise(tmp_path):
    limits = {'min_pixels': 3136, 'max_pixels': 12_845_056}
    for changes in (limits | {'size': None}, {'size': limits}, limits):
        processor = read(tmp_path, **changes)
        assert (processor.min_pixels, processor.max_pixels) == (3136, 12_845_056)


def test_a_run_may_lower_the_limit(tmp_path):
    assert read(tmp_path, 70_000).max_pixels == 70_000
    assert read(tmp_path, 10**9).max_pixels == 16_777_216
    processor = read(tmp_path, 1000)
    assert (processor.min_pixels, processor.max_pixels) == (1000, 1000)


def test_fields_that_change_no_patch_may_be_there(tmp_path):
    notes = {'auto_map': {}, 'data_format': 'channels_first', 'do_pad': False}
    assert read(tmp_path, **notes, crop_size={}) == read(tmp_path)


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'patch_size': 14}, 'patch_size=14; only 4'),
        ({'merge_size': 1}, 'merge_size=1; only 2'),
        ({'temporal_patch_size': 1}, 'temporal_patch_size=1; only 2'),
        ({'do_resize': False}, 'do_resize=False; only True'),
        ({'resample': 2}, 'resample=2; only 3'),
        ({'rescale_factor': 1.0}, 'rescale_factor must be 1 / 255'),
        ({'rescale_factor': '1'}, "rescale_factor must be 1 / 255, not '1'"),
        ({'image_mean': None}, 'image_mean=None must be three numbers'),
        ({'image_std': [0.5, 0.5]}, r'image_std=\[0.5, 0.5\] must be three numbers'),
        ({'image_std': [0.5, 0.5, 0]}, 'image_std=.* must be positive'),
        ({'size': None}, 'min_pixels or size.shortest_edge=None must be pixels'),
        ({'size': {'height': 4}}, 'fields .* does not know: size.height=4'),
        ({'size': {}}, 'size.shortest_edge=None must be pixels'),
        ({'size': 448}, 'size.shortest_edge=None must be pixels'),
        ({'tile_size': 8}, 'fields that passk_jax does not know: tile_size=8'),
        ({'do_center_crop': True}, 'do_center_crop=True; only None'),
        ({'crop_size': {'height': 4}}, "crop_size={'height': 4}; only None"),
        ({'max_pixels': 10}, 'min_pixels=65536 and max_pixels=10 .* must ascend'),
    ],
)
def test_what_is_not_honored_is_refused(changes, words, tmp_path):
    with pytest.raises(ValueError, match=rf'preprocessor_config.json: .*{words}'):
        read(tmp_path, **changes)


def test_the_file_of_transformers_5_is_read_first(tmp_path):
    older = read(tmp_path)
    # As AutoProcessor saves it.
    sizes = {name: FIELDS[name] for name in ('patch_size', 'merge_size', 'image_mean')}
    limits = {'shortest_edge': 64, 'longest_edge': 1024}
    processor = Qwen2VLImageProcessorPil(
        **sizes, size=limits, image_std=[0.1, 0.2, 0.3]
    )
    parts = {
        'image_processor': processor.to_dict(),
        'processor_class': 'Qwen3VLProcessor',
    }
    path = tmp_path / 'processor_config.json'
    path.write_text(json.dumps(parts))
    want = Processor(4, 2, 64, 1024, (0.5, 0.5, 0.5), (0.1, 0.2, 0.3))
    assert read_processor(str(tmp_path), oracle.VISION) == want != older
    assert stored_fields(str(tmp_path))['image_std'] == [0.1, 0.2, 0.3]
    (tmp_path / 'preprocessor_config.json').unlink()
    assert read_processor(str(tmp_path), oracle.VISION) == want
    path.write_text('{"image_processor": {"patch_size": 14}}')
    with pytest.raises(ValueError, match=r'/processor_config.json: patch_size=14; onl'):
        read_processor(str(tmp_path), oracle.VISION)
    path.write_text('{"image_processor": [1]}')
    with pytest.raises(ValueError, match=r'image_processor=\[1\] must be an object'):
        read_processor(str(tmp_path), oracle.VISION)


def test_an_older_file_beside_it_counts(tmp_path):
    want = read(tmp_path)
    path = tmp_path / 'processor_config.json'
    path.write_text('{"processor_class": "Qwen3VLProcessor"}')
    assert read_processor(str(tmp_path), oracle.VISION) == want


def test_without_a_file_there_is_no_processor(tmp_path):
    with pytest.raises(ValueError, match=r'has no preprocessor_config\.json'):
        read_processor(str(tmp_path), oracle.VISION)
