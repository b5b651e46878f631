"""Parquet files of images."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from sfumato.data import load, parquet
from sfumato.data.private import records
from sfumato.types import Unit
from tests.made_up import expects


def image(level: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (3, 3), level).save(out, "PNG")
    return out.getvalue()


def rows(count: int, struct: bool = False) -> list[dict]:
    def cell(level: int):
        return {"bytes": image(level), "path": f"{level}.png"} if struct else image(level)

    return [
        {"image": cell(at), "label": at % 2, "colour": "xyz"[at % 3], "person": f"p{at // 2}"} for at in range(count)
    ]


def write(path: Path, table: list[dict] | pa.Table) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table if isinstance(table, pa.Table) else pa.Table.from_pylist(table), path, row_group_size=3)
    return path


@pytest.mark.parametrize("struct", [False, True])
def test_a_file(folder, struct):
    path = write(folder / "a.parquet", rows(150, struct))
    box = load(path)
    assert box.spec.records == 150 and box.spec.classes == ("0", "1") and box.spec.shape == (1, 3, 3)
    assert records(box).read(slice(None))[:, 0, 1, 1].tolist() == list(range(150))
    assert records(box).labels.tolist() == [at % 2 for at in range(150)]
    assert load(path, label="colour").spec.classes == ("x", "y", "z")
    box = load(path, person="person")
    assert box.spec.unit is Unit.PERSON and box.spec.records == 75
    assert records(box).persons.tolist() == [at // 2 for at in range(150)]


def test_a_large_row_group_is_read_as_a_stream(folder, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (1000, 64, 64, 3), dtype=np.uint8)
    table = pa.table({"image": pa.array([b"P6 64 64 255\n" + one.tobytes() for one in noise], pa.binary())})
    pq.write_table(table, folder / "a.parquet", row_group_size=1000, write_batch_size=16)
    whole = table.nbytes
    del table
    before, seen = pa.total_allocated_bytes(), []
    decode = parquet.decode
    monkeypatch.setattr(parquet, "decode", lambda *given: seen.append(pa.total_allocated_bytes()) or decode(*given))
    box = load(folder)
    assert np.array_equal(records(box).read(slice(990, 1000)), noise[990:].transpose(0, 3, 1, 2))
    assert max(seen) - before < whole / 2


def test_a_folder_of_files_without_splits(folder):
    write(folder / "b.parquet", rows(3))
    write(folder / "a.parquet", rows(2))
    box = load(folder)
    assert records(box).read(slice(None))[:, 0, 0, 0].tolist() == [0, 1, 0, 1, 2]
    expects(folder, "has no split test; it has train", split="test")


def test_files_that_name_their_split(folder):
    write(folder / "data" / "train-00000-of-00002.parquet", rows(3))
    write(folder / "data" / "train-00001-of-00002.parquet", rows(2))
    write(folder / "data" / "test-00000-of-00001.parquet", rows(1))
    assert load(folder).spec.records == 5 and load(folder, split="test").spec.records == 1
    expects(folder, "has no split dev; it has test, train", split="dev")
    write(folder / "data" / "more.parquet", rows(1))
    expects(folder, "more.parquet does not say its split")


def test_class_names_in_the_schema(folder):
    table = pa.Table.from_pylist(rows(4))
    features = {"info": {"features": {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}
    path = write(folder / "a.parquet", table.replace_schema_metadata({"huggingface": json.dumps(features)}))
    assert load(path).spec.classes == ("no", "yes")
    features["info"]["features"]["label"]["names"] = ["no"]
    write(path, table.replace_schema_metadata({"huggingface": json.dumps(features)}))
    expects(path, r"a.parquet, row 1, has the unknown label 1; labels go from 0 to 0 \(no\)")
    write(path, table.replace_schema_metadata({"huggingface": "{nonsense"}))
    assert load(path).spec.classes == ("0", "1")


def test_without_labels_there_is_one_class(folder):
    assert load(write(folder / "a.parquet", [{"image": image(1)}])).spec.classes == ("image",)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([{"picture": image(1), "label": 1}], r"a.parquet has no column image .*it has picture, label"),
        ([{"image": image(1), "label": None}], r"a.parquet, row 0, has no label"),
        ([{"image": image(1), "label": 0.5}], r"row 0, has 0.5 as label"),
        ([{"image": image(1), "label": [1]}], r"row 0, has \[1\] as label"),
        ([{"image": b"junk", "label": 1}], r"a.parquet, row 0 cannot be read as an image"),
        ([{"image": None, "label": 1}], r"a.parquet, row 0 has no image bytes in the column image; store the content"),
        ([{"image": "a.png", "label": 1}], r"row 0 has no image bytes"),
        ([{"image": {"bytes": None, "path": "a.png"}, "label": 1}], r"row 0 has no image bytes"),
        (pa.table({"image": pa.array([], pa.binary()), "label": pa.array([], pa.int64())}), r"a.parquet has no images"),
    ],
)
def test_wrong_tables(folder, table, says):
    expects(write(folder / "a.parquet", table), says)


def test_missing_columns_and_persons(folder):
    path = write(folder / "a.parquet", [{"image": image(1), "label": 1, "who": None}])
    expects(path, "has no column kind to use as label; it has image, label, who", label="kind")
    expects(path, "has no column name to use as person", person="name")
    expects(path, "row 0, has no person in the column who; fill it in", person="who")


def test_a_damaged_file_is_named(folder):
    path = write(folder / "a.parquet", rows(30))
    whole = path.read_bytes()
    for data in (b"", b"PAR1", whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(data)
        expects(path, "a.parquet cannot be read as parquet .*write it again")


def test_sizes_are_compared_across_rows(folder):
    out = io.BytesIO()
    Image.fromarray(np.zeros((2, 5), np.uint8)).save(out, "PNG")
    path = write(folder / "a.parquet", [{"image": image(1)}, {"image": out.getvalue()}])
    expects(path, r"a.parquet, row 1 is 5x2 pixels but .*a.parquet, row 0 is 3x3; give one size for all with --size")
