"""Pictures become the patches of transformers' processor, and bad ones one line."""

import base64
import dataclasses
import io
import pathlib

import numpy as np
import PIL.Image
import pytest
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
)

from passk_jax.data.batches import read_problems
from passk_jax.data.pictures import (
    PictureReader,
    Processor,
    split_at_pictures,
    thumbnail,
)
from passk_jax.types import Problem

MEAN, STD = (0.5, 0.4, 0.3), (0.5, 0.25, 0.3)
PROCESSOR = Processor(4, 2, 256, 4096, MEAN, STD)
IMAGE = 9
READER = PictureReader(PROCESSOR, IMAGE)


def drawn(height, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, 3)).astype(np.uint8)


def encoded(array, kind='PNG', **options):
    file = io.BytesIO()
    PIL.Image.fromarray(array).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    'size',
    [(16, 24), (17, 29), (3, 40), (200, 90), (4, 4), (1, 200), (64, 64), (333, 21)],
)
def test_patches_are_those_of_transformers(size):
    processor = Qwen2VLImageProcessorPil(
        patch_size=4,
        size={'shortest_edge': 256, 'longest_edge': 4096},
        image_mean=MEAN,
        image_std=STD,
    )
    array = drawn(*size)
    want = processor(images=PIL.Image.fromarray(array), return_tensors='np')
    image = PROCESSOR.read(array)
    assert [1, *PROCESSOR.grid(image)] == want['image_grid_thw'][0].tolist()
    ours = PROCESSOR.cut(image)
    # Theirs has the picture twice, as two frames.
    frames = want['pixel_values'].reshape(len(ours), 3, 2, 16)
    for frame in range(2):
        have = ours.reshape(len(ours), 3, 16)
        np.testing.assert_allclose(have, frames[:, :, frame], rtol=0, atol=1e-6)


def test_files_bytes_and_arrays_are_one_picture(tmp_path):
    array = drawn(20, 30)
    (tmp_path / 'a.png').write_bytes(encoded(array))
    want = PROCESSOR.cut(PROCESSOR.read(array))
    for picture in (str(tmp_path / 'a.png'), encoded(array), encoded(array, 'BMP')):
        np.testing.assert_array_equal(PROCESSOR.cut(PROCESSOR.read(picture)), want)


def test_a_picture_is_upright_and_has_three_colors():
    array = drawn(20, 30)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    turned = PROCESSOR.read(encoded(np.rot90(array), exif=exif))
    np.testing.assert_array_equal(turned, PROCESSOR.read(array))
    gray = PROCESSOR.read(encoded(array[:, :, 0]))
    np.testing.assert_array_equal(
        gray, PROCESSOR.read(np.repeat(array[:, :, :1], 3, axis=2))
    )


def test_what_is_transparent_shows_white():
    # Black where it is opaque, in each form that files have.
    opaque = drawn(24, 24)[:, :, :1] > 128
    gray, alpha = np.zeros((24, 24, 1), np.uint8), opaque.astype(np.uint8) * 255
    numbers, file = PIL.Image.fromarray(opaque[:, :, 0].astype(np.uint8)), io.BytesIO()
    numbers.putpalette([0] * 6)
    numbers.save(file, 'PNG', transparency=0)
    key = np.where(opaque, 0, [1, 2, 3]).astype(np.uint8)
    pictures = [
        encoded(np.dstack([gray, gray, gray, alpha])),
        encoded(np.dstack([gray, gray, gray, alpha]), 'WEBP', lossless=True),
        encoded(np.dstack([gray, alpha])),
        encoded(key, transparency=(1, 2, 3)),
        file.getvalue(),
    ]
    want = PROCESSOR.read(np.repeat(255 - alpha, 3, axis=2))
    for picture in pictures:
        np.testing.assert_array_equal(PROCESSOR.read(picture), want)


def problem(*images, text='what?', number=3):
    return Problem(number, text, {}, 'any', images=images)


def bad_pictures(tmp_path):
    data = encoded(drawn(40, 40))
    (tmp_path / 'text.png').write_text('no picture')
    (tmp_path / 'cut.png').write_bytes(data[: len(data) // 2])
    return {
        'absent.png': str(tmp_path / 'absent.png'),
        'text.png': str(tmp_path / 'text.png'),
        'cut.png': str(tmp_path / 'cut.png'),
        f'{tmp_path.name}': str(tmp_path),
        '0 bytes': b'',
        f'{len(data) // 3} bytes': data[: len(data) // 3],
        'too narrow': drawn(1, 201),
        'array float32': np.zeros((4, 4, 3), np.float32),
        'array uint8 (4, 4)': np.zeros((4, 4), np.uint8),
        'array uint8 (0, 4, 3)': np.zeros((0, 4, 3), np.uint8),
        'None is no path (str), bytes of a file or array': None,
        "PosixPath('a.png') is no path (str)": pathlib.PosixPath('a.png'),
    }


BAD = [
    *('absent.png', 'text.png', 'cut.png', '0 bytes', 'too narrow', 'array float32'),
    *('array uint8 (4, 4)', 'array uint8 (0, 4, 3)'),
    *(
        'None is no path (str), bytes of a file or array',
        "PosixPath('a.png') is no path (str)",
    ),
]


@pytest.mark.parametrize('words', BAD)
def test_a_bad_picture_is_one_line_that_names_it(words, tmp_path):
    picture = bad_pictures(tmp_path)[words]
    with pytest.raises(ValueError, match='picture 2 of problem 3: ') as error:
        READER.expand(problem(drawn(20, 20), picture), [1, IMAGE, 2, IMAGE, 3])
    assert words in str(error.value)
    assert '\n' not in str(error.value)


def test_a_picture_too_large_to_decode_is_refused(monkeypatch):
    monkeypatch.setattr(PIL.Image, 'MAX_IMAGE_PIXELS', 100)
    with pytest.raises(ValueError, match=r'problem 3: .* exceeds limit of 200'):
        READER.expand(problem(encoded(drawn(40, 40))), [1, IMAGE, 2])


def test_an_error_of_a_decoder_names_the_picture(monkeypatch):
    # That of AVIF raises it for a damaged file.
    def load(image):
        raise RuntimeError('Failed to decode image: Missing or empty image item')

    monkeypatch.setattr('PIL.PngImagePlugin.PngImageFile.load', load)
    with pytest.raises(ValueError, match=r'problem 3: .* bytes cannot be read: Failed'):
        READER.expand(problem(encoded(drawn(20, 20))), [1, IMAGE, 2])


def test_pictures_and_their_places_are_equally_many():
    images = drawn(20, 20), drawn(20, 20)
    with pytest.raises(ValueError, match=r'problem 3 has 2 pictures, .* 1 places'):
        READER.expand(problem(*images), [1, IMAGE, 2])
    # Text that happens to have the token, in a problem without a picture.
    with pytest.raises(ValueError, match=r'problem 3 has 0 pictures, .* 1 places'):
        READER.expand(problem(), [1, IMAGE, 2])
    with pytest.raises(ValueError, match=r'problem 3: .* with text between them'):
        READER.expand(problem(*images), [1, IMAGE, IMAGE, 2])
    with pytest.raises(ValueError, match=r'problem 3: .* last token must be text'):
        READER.expand(problem(*images), [1, IMAGE, 2, IMAGE])
    with pytest.raises(ValueError, match=r"has 1 pictures, .* 2 places .* '<image>'"):
        split_at_pictures(problem(images[0]), '<image> or <image>?', reads=True)
    with pytest.raises(ValueError, match='has 1 pictures, and its prompt 0 places'):
        split_at_pictures(problem(images[0]), 'none', reads=False)
    with pytest.raises(ValueError, match='has 0 pictures, and its prompt 1 places'):
        split_at_pictures(problem(), 'a <image> tag', reads=True)
    # To a policy of text it is text like any other.
    tag = 'a <image> tag'
    assert split_at_pictures(problem(), tag, reads=False) == [tag]


def test_a_model_of_text_refuses_a_picture():
    with pytest.raises(ValueError, match=r'problem 3 has a picture, and the model'):
        PictureReader().expand(problem(drawn(20, 20)), [1, 2])


@pytest.mark.parametrize('limits', [(63, 100), (64, 63), (0, 0)])
def test_limits_of_pixels_ascend_from_those_of_a_token(limits):
    with pytest.raises(ValueError, match='must ascend from the 64 of a token'):
        dataclasses.replace(PROCESSOR, min_pixels=limits[0], max_pixels=limits[1])


def test_a_batch_has_the_pictures_of_its_problems():
    problems = [
        problem(drawn(16, 24), drawn(16, 16, 1), number=0),
        problem(number=1),
        problem(drawn(40, 32, 2), number=2),
        problem(*[drawn(60, 60, 4)] * 2, number=3),
    ]
    prompts = [[1, IMAGE, 2, IMAGE, 3], [4, 5], [IMAGE, 6, 7], [IMAGE, 1, IMAGE, 2]]
    tokenized = read_problems(
        problems,
        lambda problem: prompts[problem.id],
        max_prompt_tokens=100,
        overlong='drop',
        reader=READER,
    )
    assert tokenized.num_dropped == 1
    batch = tokenized.batch([2, 0, 1]).prompts
    assert batch.lengths.tolist() == [22, 3 + 6 + 4, 2]
    assert (batch.tokens[1] == IMAGE).sum() == 10
    grids = [[[10, 8], [0, 0]], [[4, 6], [4, 4]], [[0, 0], [0, 0]]]
    assert batch.images.grids.tolist() == grids
    assert batch.images.patches.shape == (3, 96, 48)
    second = PROCESSOR.cut(PROCESSOR.read(drawn(16, 16, 1)))
    np.testing.assert_array_equal(batch.images.patches[1, 24:40], second)
    assert not batch.images.patches[1, 40:].any()
    assert not batch.images.patches[2].any()
    # A row of text counts its tokens.
    assert batch.positions[2, :2].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert batch.positions[1, 7].tolist() == [4, 4, 4]
    text = read_problems(
        problems[1:2], lambda _: [4, 5], max_prompt_tokens=9, overlong='drop'
    )
    prompts = text.batch([0]).prompts
    assert prompts.images is prompts.positions is None


def test_a_thumbnail_is_small_and_shows_the_picture():
    for size, kind in (((20, 30), 'png'), ((600, 300), 'jpeg')):
        head, _, text = thumbnail(drawn(*size)).partition(',')
        assert head == f'data:image/{kind};base64'
        image = PIL.Image.open(io.BytesIO(base64.b64decode(text)))
        assert image.size == ((30, 20) if kind == 'png' else (128, 256))
        if kind == 'png':
            np.testing.assert_array_equal(np.asarray(image), drawn(*size))
    # A record has the same bytes in every run.
    assert thumbnail(drawn(600, 300)) == thumbnail(encoded(drawn(600, 300)))


def test_a_blank_picture_is_black_and_as_large():
    of_problem = problem(drawn(16, 24), drawn(40, 40, 1))
    blank = dataclasses.replace(READER, blank=True)
    tokens = [1, IMAGE, 2, IMAGE, 3]
    for seen, blind in zip(
        READER.expand(of_problem, tokens), blank.expand(of_problem, tokens), strict=True
    ):
        np.testing.assert_array_equal(seen, blind)
    black = (0 - np.array(MEAN)) / np.array(STD)
    patches = blank.patches(of_problem).reshape(-1, 3, 16)
    want = np.broadcast_to(black[:, None], patches.shape)
    np.testing.assert_allclose(patches, want, rtol=1e-5)
    # It must be readable all the same.
    with pytest.raises(ValueError, match='cannot be read'):
        blank.expand(problem(b'x'), [1, IMAGE, 2])
