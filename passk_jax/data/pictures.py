"""Reads the pictures of problems, like the model's processor.

1. :meth:`Processor.read` opens a picture and resizes it, so that its sides are whole
   tokens and its area is within the limits.
2. :meth:`Processor.cut` cuts it into normalized patches.
3. :meth:`PictureReader.expand` repeats the token of each picture of a prompt, once for
   each token that the picture becomes.

A picture that cannot be read is an error before any device works. Nothing here needs
torch or torchvision.
"""

import base64
import dataclasses
import io
import math
from collections.abc import Sequence

import numpy as np
import PIL.Image
import PIL.ImageOps

from passk_jax.data.positions import Grid, count_tokens, picture_positions
from passk_jax.errors import InputError, prefixed
from passk_jax.types import PICTURE, Images, Picture, Problem, Prompts

# Patches of a prompt are padded to a multiple of this many tokens.
_TOKENS = 8
_MAX_ASPECT = 200
# The longer side of a larger picture in a report.
_THUMBNAIL = 256


@dataclasses.dataclass(frozen=True)
class Processor:
    """The settings of ``preprocessor_config.json``.

    Attributes:
        patch_size: side of a patch, in pixels.
        merge_size: side of the square of patches that becomes one token, in patches.
        min_pixels, max_pixels: limits of a resized picture's area.
        mean, std: to normalize the three colors, in [0, 1].
    """

    patch_size: int
    merge_size: int
    min_pixels: int
    max_pixels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self):
        side = self.patch_size * self.merge_size
        if not side**2 <= self.min_pixels <= self.max_pixels:
            raise InputError(
                f'min_pixels={self.min_pixels} and max_pixels={self.max_pixels} of '
                f'pictures must ascend from the {side**2} of a token'
            )

    def read(self, picture: Picture) -> PIL.Image.Image:
        """Reads a picture and resizes it.

        Raises:
            InputError: it is absent, damaged, not a picture, too large or too narrow.
        """
        image = _open(picture)
        return image.resize(self._size(*image.size), PIL.Image.Resampling.BICUBIC)

    def grid(self, image: PIL.Image.Image) -> Grid:
        """Returns the rows and columns of patches of a resized picture."""
        return image.height // self.patch_size, image.width // self.patch_size

    def cut(self, image: PIL.Image.Image) -> np.ndarray:
        """Cuts a resized picture into patches ``[n, 3 * side ** 2]``, float32."""
        (rows, columns), side = self.grid(image), self.patch_size
        merge = self.merge_size
        values = np.asarray(image, np.float32) / np.float32(255)
        mean, std = (np.array(x, np.float32) for x in (self.mean, self.std))
        values = (values - mean) / std
        shape = rows // merge, merge, side, columns // merge, merge, side, 3
        # Order by token, then patch, then color.
        values = values.reshape(shape).transpose(0, 3, 1, 4, 6, 2, 5)
        return values.reshape(rows * columns, 3 * side**2)

    def _size(self, width: int, height: int) -> tuple[int, int]:
        """Computes width and height after resizing, like transformers."""
        if max(width, height) > _MAX_ASPECT * min(width, height):
            raise InputError(
                f'{width} x {height} pixels are too narrow: one side may be at most '
                f'{_MAX_ASPECT} times the other'
            )
        factor = self.patch_size * self.merge_size
        sides = [round(side / factor) * factor for side in (width, height)]
        if math.prod(sides) > self.max_pixels:
            scale = math.sqrt(width * height / self.max_pixels)
            sides = [
                max(factor, math.floor(side / scale / factor) * factor)
                for side in (width, height)
            ]
        elif math.prod(sides) < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (width * height))
            sides = [
                math.ceil(side * scale / factor) * factor for side in (width, height)
            ]
        return sides[0], sides[1]


def _open(picture: Picture) -> PIL.Image.Image:
    """Opens and decodes a picture, upright and in three colors."""
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.shape[2:] != (3,) or not picture.size:
            raise InputError(
                f'an array {picture.dtype} {picture.shape} is no picture, which is '
                'uint8 [rows, columns, 3]'
            )
        return PIL.Image.fromarray(picture)
    if not isinstance(picture, str | bytes):
        raise InputError(f'{picture!r} is no path (str), bytes of a file or array')
    where = repr(picture) if isinstance(picture, str) else f'{len(picture)} bytes'
    try:
        file = picture if isinstance(picture, str) else io.BytesIO(picture)
        with PIL.Image.open(file) as image:
            image.load()
            return _on_white(PIL.ImageOps.exif_transpose(image))
    except Exception as e:  # PIL's decoders raise many kinds for damaged files.
        raise InputError(f'{where} cannot be read: {" ".join(str(e).split())}') from e


def _on_white(image: PIL.Image.Image) -> PIL.Image.Image:
    """Converts a picture to three colors.

    What is transparent shows white, as in transformers. The colors of such parts are
    arbitrary: often black, as the lines of a drawing are.
    """
    if not image.has_transparency_data:
        return image.convert('RGB')
    page = PIL.Image.new('RGBA', image.size, 'white')
    return PIL.Image.alpha_composite(page, image.convert('RGBA')).convert('RGB')


def thumbnail(picture: Picture) -> str:
    """Makes a small copy of a picture for a page, as a ``data:`` address.

    Raises:
        InputError: the picture cannot be read.
    """
    image, file = _open(picture), io.BytesIO()
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    kind = 'png' if max(image.size) < _THUMBNAIL else 'jpeg'
    image.save(file, kind)
    return f'data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}'


@dataclasses.dataclass(frozen=True)
class PictureReader:
    """Reads the pictures of problems for a model.

    Attributes:
        processor: the model's processor; ``None``: it reads only text.
        image_token: the id in the place of a picture.
        blank: whether pictures of the same size, but black, replace all pictures.
    """

    processor: Processor | None = None
    image_token: int = -1
    blank: bool = False

    def expand(
        self, problem: Problem, prompt: Sequence[int]
    ) -> tuple[np.ndarray, tuple[Grid, ...]]:
        """Repeats the token of each picture; also returns the pictures' grids.

        Raises:
            InputError: a picture cannot be read or has no place, or the model reads
                only text.
        """
        tokens = np.array(prompt, np.int32)
        if self.processor is None:
            if problem.images:
                raise InputError(
                    f'problem {problem.id} has a picture, and the model reads only '
                    'text: choose a family that reads pictures'
                )
            return tokens, ()
        grids = tuple(map(self.processor.grid, self._read(problem)))
        places = tokens == self.image_token
        if places.sum() != len(grids):
            raise InputError(
                f'problem {problem.id} has {len(grids)} pictures, and its prompt '
                f'{places.sum()} places for them'
            )
        counts = np.ones(len(tokens), int)
        counts[places] = [self._count(grid) for grid in grids]
        tokens = np.repeat(tokens, counts)
        with prefixed(f'problem {problem.id}'):
            self.positions(tokens, grids)
        return tokens, grids

    def positions(self, tokens: np.ndarray, grids: Sequence[Grid]) -> np.ndarray:
        """Computes the positions ``[S, 3]`` of the tokens of a prompt."""
        assert self.processor is not None
        return picture_positions(
            tokens,
            grids,
            image_token=self.image_token,
            merge_size=self.processor.merge_size,
        )

    def patches(self, problem: Problem) -> np.ndarray:
        """Reads the patches of all pictures of a problem, in order."""
        assert self.processor is not None
        return np.concatenate(list(map(self.processor.cut, self._read(problem))))

    def padded(self, num_patches: int) -> int:
        """Returns X: ``num_patches`` rounded up."""
        assert self.processor is not None
        multiple = _TOKENS * self.processor.merge_size**2
        return -(-num_patches // multiple) * multiple

    def _count(self, grid: Grid) -> int:
        assert self.processor is not None
        return count_tokens(grid, merge_size=self.processor.merge_size)

    def _read(self, problem: Problem) -> list[PIL.Image.Image]:
        assert self.processor is not None
        images = []
        for number, picture in enumerate(problem.images, 1):
            with prefixed(f'picture {number} of problem {problem.id}'):
                image = self.processor.read(picture)
                size = image.size
                images.append(PIL.Image.new('RGB', size) if self.blank else image)
        return images


@dataclasses.dataclass(frozen=True)
class Pictured:
    """The pictures of a split.

    Attributes:
        reader: reads them.
        grids: the pictures' grids of each row of the split.
    """

    reader: PictureReader
    grids: Sequence[tuple[Grid, ...]]

    def add_to(
        self,
        prompts: Prompts[np.ndarray],
        problems: Sequence[Problem],
        rows: Sequence[int],
    ) -> Prompts[np.ndarray]:
        """Adds the pictures of these rows, and the positions of all tokens."""
        positions = np.zeros((*prompts.tokens.shape, 3), np.int32)
        for i, (row, length) in enumerate(zip(rows, prompts.lengths, strict=True)):
            tokens = prompts.tokens[i, :length]
            positions[i, :length] = self.reader.positions(tokens, self.grids[row])
        images = self._images(problems, rows)
        return dataclasses.replace(prompts, positions=positions, images=images)

    def _images(
        self, problems: Sequence[Problem], rows: Sequence[int]
    ) -> Images[np.ndarray]:
        """Reads the pictures of these rows, with the widths of the split."""
        processor, per_row = self.reader.processor, self.grids
        assert processor is not None
        sizes = [sum(map(math.prod, grids)) for grids in per_row]
        width = self.reader.padded(max(sizes))
        values = 3 * processor.patch_size**2
        patches = np.zeros((len(rows), width, values), np.float32)
        shapes = np.zeros((len(rows), max(map(len, per_row)), 2), np.int32)
        for i, (problem, row) in enumerate(zip(problems, rows, strict=True)):
            if grids := per_row[row]:
                patches[i, : sizes[row]] = self.reader.patches(problem)
                shapes[i, : len(grids)] = grids
        return Images(patches, shapes)


def split_at_pictures(problem: Problem, text: str, *, reads: bool) -> list[str]:
    """Splits a prompt's text at the places of its pictures.

    Args:
        problem: has the pictures.
        text: the user's turn.
        reads: whether the policy reads pictures. If not, and the problem has no
            pictures, markers in the text are plain text.

    Raises:
        InputError: there are more or fewer places than pictures.
    """
    if not (problem.images or reads):
        return [text]
    parts = text.split(PICTURE)
    if len(parts) != len(problem.images) + 1:
        raise InputError(
            f'problem {problem.id} has {len(problem.images)} pictures, and its prompt '
            f'{len(parts) - 1} places for them, which are {PICTURE!r}'
        )
    return parts
