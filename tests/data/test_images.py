"""Decoding one image: every mode comes out 8-bit grey or RGB, and bad files are named."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfumato.data import images as module
from sfumato.data.images import decode, digest, fit
from sfumato.errors import InputError

RNG = np.random.default_rng(1)
GREY = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)


def packed(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of these dimensions without pixels worth the name."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "GIF"])
def test_lossless_kinds_come_back_exactly(kind):
    assert np.array_equal(decode(packed(Image.fromarray(GREY), kind), "x"), GREY)
    if kind != "GIF":
        assert np.array_equal(decode(packed(Image.fromarray(COLOUR), kind), "x"), COLOUR)


def test_webp_and_jpeg_are_read(tmp_path):
    assert np.array_equal(decode(packed(Image.fromarray(COLOUR), "WEBP", lossless=True), "x"), COLOUR)
    flat = np.full((8, 8), 77, np.uint8)
    Image.fromarray(flat).save(tmp_path / "a.jpg", quality=95)
    assert np.abs(decode(tmp_path / "a.jpg", "x").astype(int) - flat).max() <= 2


def test_one_bit_becomes_black_and_white():
    bits = Image.fromarray(GREY).convert("1")
    assert set(np.unique(decode(packed(bits), "x"))) == {0, 255}


def test_palettes_are_looked_up_and_grey_ones_stay_grey():
    colour = Image.fromarray(COLOUR).convert("P", palette=Image.Palette.ADAPTIVE)
    assert np.array_equal(decode(packed(colour), "x"), np.asarray(colour.convert("RGB")))
    grey = Image.fromarray(GREY).convert("P")
    grey.putpalette([value for level in range(256) for value in (level, level, level)])
    found = decode(packed(grey), "x")
    assert found.ndim == 2 and np.array_equal(found, np.asarray(grey.convert("L")))


def test_transparent_pixels_are_laid_on_white():
    alpha = np.zeros((5, 7), np.uint8)
    alpha[0] = 255
    clear = Image.fromarray(np.dstack([COLOUR, alpha]))
    found = decode(packed(clear), "x")
    assert np.array_equal(found[0], COLOUR[0]) and (found[1:] == 255).all()
    clear = Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(alpha)])
    found = decode(packed(clear), "x")
    assert found.shape == (5, 7) and np.array_equal(found[0], GREY[0]) and (found[1:] == 255).all()
    keyed = decode(packed(Image.fromarray(np.zeros((2, 2), np.uint8)), transparency=0), "x")
    assert (keyed == 255).all() and keyed.ndim == 2


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_grey_is_scaled(kind):
    deep = np.array([[0, 257, 128, 129], [65535, 65278, 32896, 514]], np.uint16)
    expected = [[0, 1, 0, 1], [255, 254, 128, 2]]
    assert decode(packed(Image.fromarray(deep), kind), "x").tolist() == expected


def test_cmyk_is_converted():
    image = Image.new("CMYK", (4, 4), (0, 255, 255, 0))
    found = decode(packed(image, "TIFF"), "x")
    assert np.array_equal(found, np.asarray(image.convert("RGB"))) and found[0, 0].tolist() == [255, 0, 0]


def test_the_turn_of_the_camera_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to the right
    found = decode(packed(Image.fromarray(GREY), "PNG", exif=exif), "x")
    assert np.array_equal(found, np.rot90(GREY, -1))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_32_bit_pixels_are_refused_with_the_remedy(mode):
    with pytest.raises(InputError, match=r"scan.tif has 32-bit pixels.*save it as 8-bit PNG"):
        decode(packed(Image.fromarray(GREY).convert(mode), "TIFF"), "scan.tif")


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_animated_images_are_refused(kind):
    frames = [Image.fromarray(np.full((4, 4), level, np.uint8)) for level in (0, 200)]
    with pytest.raises(InputError, match=r"film.x is animated or has several pages; save the one that counts"):
        decode(packed(frames[0], kind, save_all=True, append_images=frames[1:]), "film.x")


def test_a_camera_jpeg_with_previews_is_one_image():
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (0, 200)]
    found = decode(packed(frames[0], "MPO", save_all=True, append_images=frames[1:]), "x")
    assert found.shape == (8, 8, 3) and found.max() < 20


@pytest.mark.parametrize("size", [(10_000, 9_000), (14_000, 14_000), (65_000, 65_000)])
def test_bombs_are_refused_before_they_unpack(size):
    with pytest.raises(InputError, match=r"bomb.png unpacks to more than 80 million pixels"):
        decode(png_header(*size), "bomb.png")


def test_every_truncation_is_an_input_error():
    whole = packed(Image.fromarray(COLOUR))
    outcomes = []
    for length in range(len(whole)):
        try:
            outcomes.append(decode(whole[:length], "cut.png").shape)
        except InputError as error:
            assert "cut.png cannot be read as an image" in str(error) and "take it out" in str(error)
    assert len(outcomes) <= 20 and set(outcomes) == {(5, 7, 3)}  # checksums and the closing chunk may be missing


@pytest.mark.parametrize("data", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"P5 0 0 255 ", png_header(0, 4), b"GIF89a"])
def test_what_is_no_image_is_named(data):
    with pytest.raises(InputError, match=r"odd\.png (cannot be read|has no pixels).*(replace|take)"):
        decode(data, "odd.png")


def test_other_decoders_never_run(tmp_path):
    (tmp_path / "a.png").write_bytes(packed(Image.fromarray(COLOUR), "EPS"))
    with pytest.raises(InputError, match="not a PNG, JPEG"):
        decode(tmp_path / "a.png", "a.png")


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match="gone.png cannot be read as an image .No such file"):
        decode(Path("/gone.png"), "/gone.png")


def test_fit_crops_the_middle_and_resizes():
    wide = np.zeros((4, 12), np.uint8)
    wide[:, 4:8] = 200
    assert (fit(wide, 2, False) == 200).all()
    assert fit(COLOUR, None, False).shape == (3, 5, 7)
    assert fit(GREY, 5, True).shape == (1, 5, 5)
    assert np.array_equal(fit(GREY, None, True)[0], GREY)


def test_digest_depends_on_mode_size_and_pixels_alone():
    assert digest(GREY) == digest(GREY.copy(order="F")) and len(digest(GREY)) == 32
    others = [digest(GREY.T), digest(GREY.reshape(7, 5)), digest(np.dstack([GREY] * 3)), digest(GREY ^ 1)]
    assert len({digest(GREY), *others}) == 5


def test_the_largest_size_is_a_limit():
    module.check_size(module.LARGEST_SIZE)
    with pytest.raises(InputError, match="from 1 to 4096"):
        module.check_size(module.LARGEST_SIZE + 1)
