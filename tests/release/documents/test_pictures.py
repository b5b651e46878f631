from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sfumato.errors import InputError
from sfumato.release.documents.pictures import check_format, read_images, write_images
from sfumato.release.files.gate import Gate, check
from sfumato.types import Images
from tests.release.files.test_fakes import fake_images


@pytest.mark.parametrize("format", ["png", "parquet"])
@pytest.mark.parametrize("channels", [1, 3])
def test_round_trip(tmp_path: Path, format: str, channels: int) -> None:
    images = fake_images(25, channels)
    write_images(Gate(tmp_path), images, format)
    back = read_images(tmp_path)
    assert np.array_equal(back.pixels, images.pixels)
    names = np.array(back.classes)[back.labels]
    # Without a statement beside them, class folders give their safe spelling.
    spelled = images.classes if format == "parquet" else ("ill", "a_b _script_alert_1_script_", "class")
    assert names.tolist() == np.array(spelled)[images.labels].tolist()
    assert check(tmp_path) == []


def test_a_single_class_gets_a_folder(tmp_path: Path) -> None:
    write_images(Gate(tmp_path), Images(np.zeros((2, 1, 4, 4), np.uint8), np.zeros(2, np.int64)))
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["image"]


def test_parquet_tells_other_tools_its_features(tmp_path: Path) -> None:
    write_images(Gate(tmp_path), fake_images(3), "parquet")
    schema = pq.read_schema(tmp_path / "data.parquet")
    assert str(schema.field("image").type) == "struct<bytes: binary, path: string>"
    assert b'"ClassLabel"' in schema.metadata[b"huggingface"]


def test_unknown_format() -> None:
    with pytest.raises(InputError, match="format=png or format=parquet, found format=gif"):
        check_format("gif")


@pytest.mark.parametrize("broken", [b"", b"not an image", b"\x89PNG\r\n\x1a\n"])
def test_a_broken_image_is_named(tmp_path: Path, broken: bytes) -> None:
    write_images(Gate(tmp_path), fake_images(3))
    (tmp_path / "images" / "ill" / "000000.png").write_bytes(broken)
    with pytest.raises(InputError, match=r"ill/000000\.png cannot be read"):
        read_images(tmp_path)


def test_other_sizes_are_refused(tmp_path: Path) -> None:
    write_images(Gate(tmp_path), fake_images(3))
    Gate(tmp_path).write("images/ill/000007.png", _other())
    with pytest.raises(InputError, match="000007.png differs in size"):
        read_images(tmp_path)


def _other() -> bytes:
    from sfumato.data.images import png

    return png(np.zeros((3, 5, 5), np.uint8))


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(b"PAR1 broken PAR1")
    with pytest.raises(InputError, match=r"data\.parquet cannot be read"):
        read_images(tmp_path)


def test_no_images_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither images/ nor data.parquet"):
        read_images(tmp_path)
