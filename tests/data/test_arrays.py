"""Arrays, in memory and in .npz files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfumato.data import load
from sfumato.data import npz as module
from sfumato.data.private import records
from sfumato.types import Unit
from tests.made_up import expects

RNG = np.random.default_rng(2)
GREY = RNG.integers(0, 256, (7, 5, 6), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (7, 5, 6, 3), dtype=np.uint8)
LABELS = np.array([2, 0, 0, 2, 5, 2, 0])


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "set.npz"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (GREY, GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (COLOUR, COLOUR.transpose(0, 3, 1, 2)),
        (np.ascontiguousarray(COLOUR.transpose(0, 3, 1, 2)), COLOUR.transpose(0, 3, 1, 2)),
    ],
)
def test_every_layout_in_memory_and_in_a_file(file, images, expected, compressed, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 100)  # several pieces
    (np.savez_compressed if compressed else np.savez)(file, images=images, labels=LABELS)
    for source in (file, (images, LABELS)):
        box = load(source)
        assert box.spec.shape == expected.shape[1:] and box.spec.classes == ("0", "2", "5")
        assert np.array_equal(records(box).read(slice(None)), expected)
        assert records(box).labels.tolist() == [1, 0, 0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    "labels",
    [
        LABELS[:, None],
        LABELS.astype("uint8"),
        LABELS.astype("U"),
        LABELS.astype("S"),
        LABELS.astype(">i4"),
        np.asfortranarray(LABELS[:, None]),
    ],
)
def test_labels_of_every_type(file, labels):
    np.savez(file, images=GREY, labels=labels)
    assert records(load(file)).labels.tolist() == records(load((GREY, labels))).labels.tolist() == [1, 0, 0, 1, 2, 1, 0]


def test_labels_may_be_missing_yes_and_no_or_lists(file):
    np.savez(file, images=GREY)
    assert load(file).spec.classes == load((GREY, None)).spec.classes == ("image",)
    assert load((GREY, LABELS > 1)).spec.classes == ("0", "1")
    assert load((GREY, LABELS.tolist())).spec.classes == ("0", "2", "5")


def test_class_names_in_the_file(file):
    np.savez(file, images=GREY, labels=LABELS, class_names=np.array(list("zyxwvu")))
    assert load(file).spec.classes == tuple("zyxwvu")
    np.savez(file, images=GREY, labels=LABELS, class_names=np.array(["a", "b"]))
    expects(file, r"set.npz, array labels has the unknown label 2 in row 0; labels go from 0 to 1 \(a, b\)")
    np.savez(file, images=GREY, labels=LABELS, class_names=np.array(["a", "a"]))
    expects(file, "class_names has an empty name or one name twice")
    np.savez(file, images=GREY, labels=LABELS, class_names=np.array([1]))
    expects(file, "class_names is not a list of names")


def test_other_columns(file):
    np.savez(file, images=GREY, labels=LABELS, hue=LABELS % 2, hue_names=np.array(["red", "blue"]))
    assert load(file, label="hue").spec.classes == ("red", "blue")
    expects(file, r"has no array size to use as label; it has hue, hue_names, images, labels", label="size")


def test_persons(file):
    person = np.array([9, 9, 4, 4, 4, 1, 9])
    np.savez(file, images=GREY, labels=LABELS, person=person)
    assert load(file).spec.unit is Unit.RECORD
    arrays = (GREY, LABELS, person)
    for box in (load(file, person="person"), load(arrays), load(arrays, person="person")):
        assert box.spec.unit is Unit.PERSON and box.spec.records == 3
        assert records(box).persons.tolist() == [0, 0, 1, 1, 1, 2, 0]
    expects(file, "no array who to use as person", person="who")
    expects((GREY, LABELS), "third array", person="person")
    expects((GREY, LABELS, person), "no column who", person="who")
    empty = np.array(["a", "", "b", "a", "a", "a", "a"])
    np.savez(file, images=GREY, labels=LABELS, person=empty)
    expects(file, r"set.npz, array person has no person in row 1; fill it in", person="person")
    expects((GREY, LABELS, empty), "The array person has no person in row 1")
    expects((GREY, LABELS, np.array([1, np.nan] + [1.0] * 5)), r"type float64 \(some are NaN\)")


def test_splits_in_front_of_the_keys(file):
    np.savez(file, train_images=GREY, train_labels=LABELS[:, None], test_images=GREY[:2], test_labels=LABELS[:2, None])
    assert load(file).spec.records == 7 and load(file, split="test").spec.records == 2
    expects(file, r"set.npz has no split val; it has test, train", split="val")
    np.savez(file, images=GREY, labels=LABELS)
    expects(file, r"set.npz has no split test; it has train", split="test")
    expects((GREY, LABELS), r"has no split test; it has train", split="test")


def test_image_files_packed_end_to_end(file):
    files = []
    for image in COLOUR:
        out = io.BytesIO()
        Image.fromarray(image).save(out, "PNG")
        files.append(out.getvalue())
    offsets = np.cumsum([0, *map(len, files)])
    packed = np.frombuffer(b"".join(files), np.uint8)
    np.savez(file, train_bytes=packed, train_offsets=offsets, train_labels=LABELS)
    assert np.array_equal(records(load(file)).read(slice(None)), COLOUR.transpose(0, 3, 1, 2))
    for wrong in (offsets[1:], offsets[:-1], offsets[::-1], offsets.astype(float), offsets[:1], np.zeros(8, int)):
        np.savez(file, train_bytes=packed, train_offsets=wrong, train_labels=LABELS)
        expects(file, r"array train_offsets does not cut train_bytes into images")
    broken = packed.copy()
    broken[offsets[3] : offsets[3] + 8] = 0
    np.savez(file, train_bytes=broken, train_offsets=offsets, train_labels=LABELS)
    expects(file, r"array train_bytes, image 3 cannot be read as an image")
    np.savez(file, train_bytes=packed)
    expects(file, r"set.npz cannot be read as an .npz file")


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (GREY / 255, r"has fractions from 0 to 1; multiply by 255 and cast to uint8"),
        (GREY.astype("f4"), r"has fractions; scale them to 0..255 and cast to uint8"),
        (np.where(GREY > 100, np.nan, 1.0), r"has NaN or infinite values; repair them"),
        (np.where(GREY > 100, np.inf, 1.0).astype("f2"), r"has NaN or infinite values"),
        (GREY.astype("i8"), r"has the type int64; give whole numbers from 0 to 255 as uint8"),
        (GREY > 3, r"has the type bool"),
        (GREY.astype("c8"), r"has the type complex64"),
        (GREY.astype("U"), r"has the type <U"),
        (GREY[0], r"has the shape \(5, 6\); give images as \(n, height, width\)"),
        (GREY[:, :, :, None, None], r"has the shape \(7, 5, 6, 1, 1\)"),
        (COLOUR[..., :2], r"has the shape \(7, 5, 6, 2\)"),
        (np.zeros((7, 4, 4, 4), np.uint8), r"has the shape \(7, 4, 4, 4\)"),
        (GREY[:0], r"has the shape \(0, 5, 6\), which holds no pixels"),
        (GREY[:, :0], r"has the shape \(7, 0, 6\), which holds no pixels"),
    ],
)
def test_wrong_pixels(file, images, says):
    np.savez(file, images=images, labels=LABELS)
    expects(file, rf"set.npz, array images {says}")
    expects((images, LABELS), f"The array images {says}")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (LABELS[:6], r"has the shape \(6,\) for 7 images; give one label an image"),
        (np.zeros((7, 2), int), r"has the shape \(7, 2\) for 7 images"),
        (np.array(0), r"shape \(\)|0 axes"),
        (LABELS / 2, r"has the type float64; give every label as a whole number or a name"),
        (np.array(["a", " ", "b", "a", "a", "a", "a"]), r"has no label in row 1; fill it in"),
        (np.array([b"a", b"\xff", b"b", b"a", b"a", b"a", b"a"]), r"has a name that is not UTF-8"),
        (np.array(["a", "b\x01"] + ["c"] * 5), r"row 1, has the label b.x01, which is not printable"),
    ],
)
def test_wrong_labels(file, labels, says):
    np.savez(file, images=GREY, labels=labels)
    expects(file, says)
    expects((GREY, labels), says)


def test_python_objects_are_never_read(file):
    objects = np.array(["a", 1, None, [], {}, (), "b"], object)
    np.savez(file, images=GREY, labels=objects)
    expects(file, r"array labels holds Python objects, which are not read")
    expects((GREY, objects), r"array labels holds object")
    expects(([[1], [2, 3]], LABELS), r"images cannot be read as an array")


def test_an_array_stored_by_columns_is_refused(file):
    np.savez(file, images=np.asfortranarray(GREY), labels=LABELS)
    expects(file, "stored column by column; save numpy.ascontiguousarray of it")
    assert load((np.asfortranarray(GREY), LABELS)).spec.records == 7


def test_a_file_without_images_says_what_it_has(file):
    np.savez(file, x=GREY, y=LABELS)
    expects(file, r"set.npz has the arrays x, y; it needs `images` and `labels`")


def test_damaged_files_are_named(file):
    np.savez_compressed(file, images=GREY, labels=LABELS)
    whole = file.read_bytes()
    for data in (b"", b"PK", whole[: len(whole) // 2], whole[:60] + b"\0" * 40 + whole[100:]):
        file.write_bytes(data)
        expects(file, r"set.npz cannot be read as an .npz file .*write it again with numpy.savez|set.npz, array ")


def test_a_header_that_lies_is_refused_before_memory_is_taken(file):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 28, 28)})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("images.npy", out.getvalue() + b"\0" * 100)
    expects(file, r"array images is not as long as its header says; write the file again")


def test_a_pickle_in_disguise_is_refused(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("images.npy", b"\x80\x04N.")
    expects(file, r"set.npz cannot be read as an .npz file")
