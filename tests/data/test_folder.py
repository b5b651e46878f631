"""Folders of images: layouts that are read, and every way in which one can be wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from sfumato.data import load
from sfumato.data.private import records
from sfumato.types import Unit
from tests.made_up import expects


def put(path: Path, level: int = 0, size: tuple[int, int] = (4, 4), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, level if mode == "L" else (level, 10, 20)).save(path)


def levels(box) -> list[int]:
    """The first pixel of every image, by which the tests know them apart."""
    return records(box).read(slice(None))[:, 0, 0, 0].tolist()


def write_metadata(folder: Path, kind: str, rows: list[dict]) -> Path:
    path = folder / f"metadata.{kind}"
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(str(cell) for cell in row.values()) for row in rows)]
        path.write_text("\n".join(lines), "utf-8")
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_class_folders(folder):
    for level, name in enumerate(["b/1.png", "a/2.png", "b/0.PNG", "c c/x.png"]):
        put(folder / name, level)
    (folder / "a" / "notes.txt").write_text("not an image")
    put(folder / "a" / ".hidden.png", 99)
    put(folder / ".trash" / "x.png", 99)
    put(folder / "__MACOSX" / "x.png", 99)
    (folder / "empty").mkdir()
    box = load(folder)
    assert box.spec.classes == ("a", "b", "c c") and box.spec.records == 4 and box.spec.shape == (1, 4, 4)
    assert levels(box) == [1, 2, 0, 3]
    assert records(box).labels.tolist() == [0, 1, 1, 2]


def test_classes_named_by_numbers_are_in_the_order_of_numbers(folder):
    for name in ("10", "9", "1"):
        put(folder / name / "x.png")
    assert load(folder).spec.classes == ("1", "9", "10")


def test_a_flat_folder_has_one_class(folder):
    put(folder / "b.png", 2)
    put(folder / "a.png", 1)
    box = load(folder)
    assert box.spec.classes == ("image",) and not box.spec.conditional
    assert levels(box) == [1, 2]


def test_one_colour_image_makes_the_set_colour(folder):
    put(folder / "a.png", 7)
    put(folder / "b.png", 9, mode="RGB")
    box = load(folder)
    assert box.spec.shape == (3, 4, 4)
    assert records(box).read(slice(None))[:, :, 0, 0].tolist() == [[7, 7, 7], [9, 10, 20]]
    assert load(folder, grey=True).spec.shape == (1, 4, 4)


def test_mixed_sizes_need_a_size(folder):
    put(folder / "a.png", size=(4, 4))
    put(folder / "b.png", size=(5, 4))
    expects(folder, r"set/b.png is 5x4 pixels but .*set/a.png is 4x4; give one size for all with --size")
    assert load(folder, size=3).spec.shape == (1, 3, 3)


def test_split_folders(folder):
    put(folder / "train" / "a" / "x.png", 1)
    put(folder / "train" / "b" / "x.png", 2)
    put(folder / "test" / "b" / "x.png", 3)
    put(folder / "valid" / "a" / "x.png", 4)
    (folder / "README.md").write_text("about")
    assert levels(load(folder)) == [1, 2]
    box = load(folder, split="test")
    assert levels(box) == [3] and box.spec.classes == ("a", "b") and records(box).labels.tolist() == [1]
    assert levels(load(folder, split="val")) == levels(load(folder, split="validation")) == [4]
    expects(folder, r"set has no split other; it has test, train, validation: choose with --split", split="other")


def test_a_folder_without_splits_is_all_train(folder):
    put(folder / "a.png")
    expects(folder, r"set has no split test; it has train", split="test")


def test_images_beside_split_folders_are_refused(folder):
    put(folder / "train" / "x.png")
    put(folder / "cats" / "deep" / "x.png")
    expects(folder, r"has the split folder train and images beside it \(cats\); move them")
    (folder / "metadata.csv").write_text("file_name,label\ntrain/x.png,a\ncats/deep/x.png,b\n")
    assert load(folder).spec.classes == ("a", "b")


def test_one_split_under_two_names_is_refused(folder):
    put(folder / "val" / "x.png")
    put(folder / "valid" / "x.png")
    expects(folder, "one split under two names; keep one", split="val")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_metadata(folder, kind):
    for level, name in enumerate(["a.png", "sub/b.png", "c.png"]):
        put(folder / name, level)
    rows = [
        {"file_name": "sub/b.png", "label": "dog", "hue": 1, "who": "eve"},
        {"file_name": "./a.png", "label": "cat", "hue": 1, "who": "eve"},
        {"file_name": "c.png", "label": "dog", "hue": 0, "who": "bob"},
    ]
    write_metadata(folder, kind, rows)
    box = load(folder)
    assert levels(box) == [0, 2, 1] and box.spec.classes == ("cat", "dog") and box.spec.unit is Unit.RECORD
    assert records(box).labels.tolist() == [0, 1, 1]
    assert load(folder, label="hue").spec.classes == ("0", "1")
    box = load(folder, person="who")
    assert box.spec.unit is Unit.PERSON and box.spec.records == 2
    assert records(box).persons.tolist() == [0, 1, 0]
    expects(folder, r"metadata.* has no column size to use as label; it has file_name, label, hue, who", label="size")
    expects(folder, r"metadata.* has no column name to use as person; .*--person", person="name")


def test_metadata_of_splits(folder):
    for split in ("train", "test"):
        put(folder / split / "x.png", len(split))
    (folder / "metadata.csv").write_text("file_name,label\ntrain/x.png,a\ntest/x.png,b\n")
    assert (levels(load(folder)), load(folder).spec.classes) == ([5], ("a",))
    assert levels(load(folder, split="test")) == [4]
    (folder / "train" / "metadata.csv").write_text("file_name,label\nx.png,c\n")
    expects(folder, "both describe the same images; keep one")
    (folder / "metadata.csv").unlink()
    assert load(folder).spec.classes == ("c",)


def test_metadata_with_persons_beside_class_folders(folder):
    put(folder / "a" / "1.png")
    put(folder / "b" / "1.png")
    (folder / "metadata.csv").write_text("file_name,person\na/1.png,7\nb/1.png,7\n")
    box = load(folder, person="person")
    assert box.spec.classes == ("a", "b") and box.spec.records == 1


def test_a_quoted_name_and_a_byte_order_mark_are_read(folder):
    put(folder / "a,b.png")
    (folder / "metadata.csv").write_text('\ufefffile_name,label\r\n"a,b.png",x\r\n', "utf-8")
    assert load(folder).spec.classes == ("x",)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            "file_name,label\na.png,x\nb.png,x\nc.png,y",
            r"metadata.csv, line 4, names c.png, but there is no such image",
        ),
        ("file_name,label\na.png,x", r"b.png has no row in .*metadata.csv; add a row or take the image out"),
        ("file_name,label\na.png,x\nb.png,x\n./a.png,x", r"line 4, names a.png again, after .*line 2,; keep one row"),
        ("file_name,label\na.png,x\nb.png,", r"line 3, has no label in the column label; fill it in"),
        ("file_name,label\na.png,x\nb.png,  ", r"line 3, has no label"),
        ("file_name,label\na.png,x\n../b.png,x", r"line 3, names \.\./b.png, which leaves the folder; move the image"),
        ("file_name,label\na.png,x\nsub/../../b.png,x", r"leaves the folder"),
        ("file_name,label\na.png,x\n/etc/b.png,x", r"names /etc/b.png, which leaves the folder"),
        ("file_name,label\na.png,x\n,x", r"line 3, names no file; give the path of the image in the column file_name"),
        ("file_name,label\na.png,x\nb.png", r"line 3, has 1 fields instead of 2; correct the line"),
        ("file_name,label\na.png,x\nb.png,x,y", r"line 3, has 3 fields instead of 2"),
        ("name,label\na.png,x\nb.png,y", r"metadata.csv has no column file_name; it has name, label"),
        ("file_name,label,label\na.png,x,y\nb.png,y,y", r"has a column twice"),
        ('file_name,label\na.png,"x\nb.png,y', r"metadata.csv cannot be read as csv .*save it as UTF-8"),
        ("", r"metadata.csv has no column file_name; it has none"),
    ],
)
def test_bad_metadata(folder, rows, says):
    put(folder / "a.png")
    put(folder / "b.png")
    (folder / "metadata.csv").write_text(rows)
    expects(folder, says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[1]", r"metadata.jsonl, line 1, is not a JSON object"),
        ("{", r"metadata.jsonl cannot be read as jsonl"),
        ('{"label": "x"}', r"no column file_name"),
        ('{"file_name": 3, "label": "x"}', r"line 1, names no file"),
        ('{"file_name": "a.png", "label": null}', r"line 1, has no label"),
        ('{"file_name": "a.png", "label": NaN}', r"line 1, has no label"),
        (
            '{"file_name": "a.png", "label": 0.5}',
            r"line 1, has 0.5 as label; give the label as a word or a whole number",
        ),
        ('{"file_name": "a.png", "label": ["x"]}', r"line 1, has \['x'\] as label"),
        ('{"file_name": "a.png", "label": "x\\u0000"}', r"line 1, has the label x.x00, which is not printable"),
        ('{"file_name": "a.png", "label": "\\ud800"}', r"not printable text; rename it"),
        ("[" * 100_000, r"cannot be read as jsonl|is not a JSON"),
    ],
)
def test_bad_json_lines(folder, line, says):
    put(folder / "a.png")
    (folder / "metadata.jsonl").write_text(line)
    expects(folder, says)


def test_a_label_that_some_rows_lack(folder):
    put(folder / "a.png")
    put(folder / "b.png")
    write_metadata(folder, "jsonl", [{"file_name": "a.png", "label": 1}, {"file_name": "b.png"}])
    expects(folder, r"line 2, has no label, as other rows have; fill it in")


def test_whole_numbers_stored_as_fractions_are_numbers(folder):
    put(folder / "a.png")
    write_metadata(folder, "jsonl", [{"file_name": "a.png", "label": 2.0}])
    assert load(folder).spec.classes == ("2",)


def test_a_row_without_a_person_is_refused(folder):
    put(folder / "a.png")
    put(folder / "b.png")
    (folder / "metadata.csv").write_text("file_name,label,who\na.png,x,eve\nb.png,x,\n")
    expects(folder, r"metadata.csv, line 3, has no person in the column who; fill it in or take", person="who")
    assert load(folder).spec.records == 2


def test_columns_need_a_metadata_file(folder):
    put(folder / "a.png")
    expects(folder, r"has no metadata file .* column who to use as person; leave --person out", person="who")


def test_broken_parquet_metadata_is_named(folder):
    put(folder / "a.png")
    (folder / "metadata.parquet").write_bytes(b"PAR1 nonsense")
    expects(folder, r"metadata.parquet cannot be read as parquet .*write it again")


def test_metadata_that_is_not_utf8_is_named(folder):
    put(folder / "a.png")
    (folder / "metadata.csv").write_bytes(b"file_name,label\na.png,\xff\xfe\n")
    expects(folder, r"metadata.csv cannot be read as csv .*UTF-8")


def test_only_one_metadata_file_and_only_at_the_top(folder):
    put(folder / "a.png")
    write_metadata(folder, "csv", [{"file_name": "a.png"}])
    write_metadata(folder, "jsonl", [{"file_name": "a.png"}])
    expects(folder, "has both metadata.csv and metadata.jsonl; keep one")
    (folder / "metadata.csv").unlink()
    put(folder / "sub" / "b.png")
    write_metadata(folder / "sub", "csv", [{"file_name": "b.png"}])
    expects(folder, r"sub/metadata.csv lies too deep; keep one metadata file, in .*set")
    (folder / "sub" / "metadata.csv").unlink()
    (folder / "metadata.jsonl").unlink()
    os.mkfifo(folder / "metadata.csv")
    expects(folder, "metadata.csv is not a regular file")


def test_a_folder_without_images_is_named(folder):
    expects(folder, r"set has no images; put PNG, JPEG")
    (folder / "train").mkdir()
    expects(folder, r"set/train has no images")


@pytest.mark.parametrize("cut", [0, 20, 45])
def test_a_truncated_image_is_named(folder, cut):
    put(folder / "a" / "good.png")
    put(folder / "a" / "short.png", size=(30, 30))
    data = (folder / "a" / "short.png").read_bytes()
    (folder / "a" / "short.png").write_bytes(data[:cut])
    expects(folder, r"a/short.png cannot be read as an image .*replace it by a good copy or take it out")


def test_kinds_of_images_that_are_not_read_are_refused(folder):
    put(folder / "a.png")
    (folder / "photo.HEIC").write_bytes(b"?")
    expects(folder, r"photo.HEIC is an image of a kind that is not read; save it as PNG")


def test_images_at_different_depths_are_refused(folder):
    put(folder / "a.png")
    put(folder / "cats" / "b.png")
    expects(folder, r"a.png and cats/b.png lie at different depths; put every image into the folder of its class")


def test_links_may_not_leave_the_folder(folder, tmp_path):
    put(tmp_path / "secret.png", 3)
    put(folder / "a.png", 1)
    (folder / "b.png").symlink_to(folder / "a.png")
    assert levels(load(folder)) == [1, 1]
    (folder / "c.png").symlink_to(tmp_path / "secret.png")
    expects(folder, r"c.png is a link that leaves .*set; put a copy")
    (folder / "c.png").unlink()
    (folder / "d.png").symlink_to("nowhere.png")
    expects(folder, r"d.png is not a regular file; replace it")
    (folder / "d.png").unlink()
    (folder / "more").symlink_to(tmp_path)
    expects(folder, r"more is a link to a folder; put the folder itself there")


def test_a_split_folder_that_is_a_link_is_refused(folder, tmp_path):
    put(tmp_path / "elsewhere" / "a.png")
    (folder / "train").symlink_to(tmp_path / "elsewhere")
    expects(folder, r"train is a link to a folder")


def test_pipes_and_devices_are_refused(folder):
    os.mkfifo(folder / "a.png")
    expects(folder, "a.png is not a regular file")


def test_a_name_that_is_not_utf8_is_refused(folder):
    put(folder / "a.png")
    os.rename(os.fsencode(folder / "a.png"), os.fsencode(folder) + b"/\xffa.png")
    expects(folder, r"The name .*set/.udcffa.png is not UTF-8; rename it")


def test_class_names_can_be_printed(folder):
    put(folder / "a\nb" / "x.png")
    expects(folder, r"class folder .*a.+nb.* has no printable name; rename it")


def test_the_same_image_in_two_formats_has_one_digest(folder):
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).save(folder / "a.png")
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).save(folder / "b.bmp")
    one, two = records(load(folder)).digests
    assert np.array_equal(one, two)
