from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from sfumato.release.files.content import json_problem, parquet_problem, png_problem, tensor_problem, text_problem


def _png(**options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(buffer, "PNG", **options)
    return buffer.getvalue()


def test_png_holds_pixels_alone() -> None:
    notes = PngInfo()
    notes.add_text("source", "/home/ann/scan.png")
    assert png_problem(_png()) is None
    assert "tEXt" in str(png_problem(_png(pnginfo=notes)))
    assert "behind its end" in str(png_problem(_png() + b"secret bytes here"))
    assert "cut short" in str(png_problem(_png()[:-5]))
    assert png_problem(b"GIF89a") == "is not a PNG image"


def _table(columns: dict[str, list[int]], notes: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(notes), buffer)
    return buffer.getvalue()


def test_parquet_holds_images_and_labels_alone() -> None:
    assert parquet_problem(_table({"image": [1], "label": [0]}, {"huggingface": "{}"})) is None
    assert "person" in str(parquet_problem(_table({"image": [1], "label": [0], "person": [7]})))
    assert "pandas" in str(parquet_problem(_table({"image": [1], "label": [0]}, {"pandas": "{}"})))
    assert parquet_problem(b"PAR1") == "is not a parquet file"


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, b"[1]", b'{"a": NaN}', b"[" * 100_000])
def test_json_must_be_strict(data: bytes) -> None:
    assert json_problem(data, {"a": [(int, {"b": None})]}) is not None


def test_json_within_its_keys() -> None:
    assert json_problem(b'{"a": [1, {"b": null}]}', {"a": [(int, {"b": None})]}) is None


@pytest.mark.parametrize(
    "data", [b"", b"1234567", b"\x02\0\0\0\0\0\0\0[]", b'\x13\0\0\0\0\0\0\0{"__metadata__": []}', b"\xff" * 64]
)
def test_tensors_must_be_a_file_of_tensors(data: bytes) -> None:
    assert tensor_problem(data, lambda why: True) == "is not a safetensors file"


def test_text_is_utf8() -> None:
    assert text_problem("größer".encode()) is None
    assert text_problem(b"\xff\xfe") == "is not UTF-8 text"
