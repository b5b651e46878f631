"""One image: decoded to 8-bit grey or colour, named by a digest, brought to the shape that is asked for.

Decoding keeps grey images grey and makes everything else RGB: palettes are looked up, 1-bit becomes 0 and 255,
transparent pixels are laid on white, CMYK is converted, 16-bit grey is scaled to 8 bits, and the turn that a
camera wrote into the file (EXIF) is applied. Fitting crops the middle square, then resizes with Lanczos.
"""

from __future__ import annotations

import hashlib
import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.source import show
from sfumato.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # named, so that no other decoder ever runs
MOST_PIXELS = 80_000_000
LARGEST_SIZE = 4096
logging.getLogger("PIL").addHandler(logging.NullHandler())  # what is wrong with a file is said once, by us


def decode(data: Path | bytes, where: str) -> np.ndarray:
    """Pixels of an image file, uint8, height x width (grey) or height x width x 3.

    >>> decode(b"P5 2 1 255 ab", "a tiny image").tolist()
    [[97, 98]]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow remarks on odd but readable files
        try:
            return _decode(data, where)
        except InputError:
            raise
        except Exception as error:  # broken files make Pillow raise nearly any type
            raise InputError(
                f"{show(where)} cannot be read as an image ({_reason(error)}); "
                "replace it by a good copy or take it out."
            ) from error


def png(pixels: np.ndarray) -> bytes:
    """One image (channels, height, width) as PNG, packed lightly because many are written."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def digest(image: np.ndarray) -> bytes:
    """BLAKE2b-256 of a decoded image; its mode and size count, its file format does not."""
    height, width = image.shape[:2]
    mode = "L" if image.ndim == 2 else "RGB"
    head = f"{mode} {width}x{height}\n".encode()
    return hashlib.blake2b(head + image.tobytes(), digest_size=32).digest()


def fit(image: np.ndarray, size: int | None, grey: bool) -> np.ndarray:
    """The image as channels x height x width, grey if `grey`, `size` x `size` unless None."""
    resize = size is not None and image.shape[:2] != (size, size)
    if resize or (grey and image.ndim == 3):
        image = _refit(image, size if resize else None, grey)
    return image[None] if image.ndim == 2 else image.transpose(2, 0, 1)


def check_size(size: int | None) -> None:
    """Refuse a size that is not a usable number of pixels."""
    if size is None:
        return
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= LARGEST_SIZE:
        raise InputError(f"Expected size as a whole number from 1 to {LARGEST_SIZE}, found size={size!r}.")


def _decode(data: Path | bytes, where: str) -> np.ndarray:
    from PIL import Image, ImageOps

    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        with Image.open(io.BytesIO(data) if isinstance(data, bytes) else data, formats=FORMATS) as image:
            _check_header(image, where)
            ImageOps.exif_transpose(image, in_place=True)
            return _to_bytes(image, where)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(where) from error


def _check_header(image: Image.Image, where: str) -> None:
    """Refuse by what the header says, before any pixel is unpacked."""
    if min(image.size) < 1:
        raise InputError(f"{show(where)} has no pixels; replace it by a good copy or take it out.")
    if image.size[0] * image.size[1] > MOST_PIXELS:
        raise _too_large(where)
    # An MPO is a camera's JPEG whose further frames are previews of the first.
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        raise InputError(f"{show(where)} is animated or has several pages; save the one that counts as PNG.")


def _too_large(where: str) -> InputError:
    return InputError(
        f"{show(where)} unpacks to more than {MOST_PIXELS // 1_000_000} million pixels "
        "(a decompression bomb, or an image to be made smaller first); take it out or resize it."
    )


def from_pillow(image: Image.Image, where: str) -> np.ndarray:
    """Pixels of an image that somebody else has opened, as `decode` gives those of a file."""
    try:
        _check_header(image, where)
        return _to_bytes(image, where)
    except InputError:
        raise
    except Exception as error:  # a file that is decoded late may still be broken
        raise InputError(f"{show(where)} cannot be read as an image ({_reason(error)}); take it out.") from error


def _to_bytes(image: Image.Image, where: str) -> np.ndarray:
    """8-bit grey or RGB pixels of an opened image of any mode."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return _from_16_bit(np.asarray(image))
    if image.mode in ("I", "F"):
        raise InputError(f"{show(where)} has 32-bit pixels, whose range is not known; save it as 8-bit PNG.")
    if image.has_transparency_data:
        return _on_white(image)
    if image.mode in ("1", "L"):
        return np.asarray(image.convert("L"))
    pixels = np.asarray(image.convert("RGB"))
    return _grey_if_equal(pixels) if image.mode == "P" else pixels


def _from_16_bit(pixels: np.ndarray) -> np.ndarray:
    """0..65535 to 0..255, rounded."""
    return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _on_white(image: Image.Image) -> np.ndarray:
    from PIL import Image

    grey = image.mode in ("1", "L", "LA", "La")
    image = image.convert("RGBA")
    below = Image.new("RGBA", image.size, "white")
    flat = np.asarray(Image.alpha_composite(below, image).convert("RGB"))
    return np.ascontiguousarray(flat[..., 0]) if grey else _grey_if_equal(flat)


def _grey_if_equal(pixels: np.ndarray) -> np.ndarray:
    """Palettes do not say that they are grey; their colours do."""
    equal = (pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 1] == pixels[..., 2]).all()
    return np.ascontiguousarray(pixels[..., 0]) if equal else pixels


def _refit(image: np.ndarray, size: int | None, grey: bool) -> np.ndarray:
    from PIL import Image

    picture = Image.fromarray(image)
    if grey:
        picture = picture.convert("L")
    if size is not None:
        width, height = picture.size
        side = min(width, height)
        left = (width - side) // 2
        top = (height - side) // 2
        picture = picture.crop((left, top, left + side, top + side))  # first, lest the filter reach outside
        picture = picture.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _reason(error: Exception) -> str:
    """Pillow's own words, where they are words."""
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "not a PNG, JPEG, GIF, BMP, WebP, TIFF or PNM image, or its start is damaged"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return show(error)[:120] or type(error).__name__
