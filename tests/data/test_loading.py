"""`load`: options that hold for every source, and sources that are none."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfumato.data import load, load_public
from sfumato.data.private import records
from sfumato.errors import InputError
from sfumato.types import Images

GREY = np.arange(5 * 6 * 6, dtype=np.uint8).reshape(5, 6, 6)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("no/such/place", r"no file or folder .*/no/such/place; check the path, or name a set: fashion-mnist"),
        ("nobody:/data", r"no file or folder"),
        ("", "a path or the name of a set"),
        ("a\0b", "a path or the name of a set"),
        ("~nobody_at_all/x", "Expected data as a path"),
        ("x" * 5000, "check the path"),
        (b"bytes", "Expected data as a path"),
        (17, "found int"),
        (None, "found NoneType"),
        ((), "found 0 parts"),
        ((GREY,), "found 1 parts"),
        ((GREY, None, None, None), "found 4 parts"),
    ],
)
def test_what_is_no_source_is_refused(source, says):
    with pytest.raises(InputError, match=says):
        load(source)


def test_files_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes.txt is not data that can be read; give a folder of images, an .npz"):
        load(tmp_path / "notes.txt")


def test_a_device_or_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(InputError, match=r"pipe.npz is not data"):
        load(tmp_path / "pipe.npz")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_named(tmp_path):
    (tmp_path / "shut").mkdir(mode=0o000)
    with pytest.raises(InputError, match=r"shut .*permissions"):
        load(tmp_path / "shut")


def test_a_path_that_is_not_utf8_is_refused(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.mkdir(folder)
    with pytest.raises(InputError, match=r"path in UTF-8.*udcff"):
        load(folder)


@pytest.mark.parametrize("size", [0, -1, 2.5, "28", True, 10**6])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(InputError, match="Expected size as a whole number"):
        load((GREY, None), size=size)


def test_size_and_grey_are_applied():
    colour = np.random.default_rng(0).integers(0, 256, (3, 10, 8, 3), dtype=np.uint8)
    box = load((colour, None), size=4)
    assert box.spec.shape == (3, 4, 4)
    middle = Image.fromarray(colour[1][1:9]).resize((4, 4), Image.Resampling.LANCZOS)
    assert np.array_equal(records(box).read(np.array([1]))[0], np.asarray(middle).transpose(2, 0, 1))
    box = load((colour, None), grey=True)
    assert box.spec.shape == (1, 10, 8)
    assert np.array_equal(records(box).read(slice(0, 1))[0, 0], np.asarray(Image.fromarray(colour[0]).convert("L")))


@pytest.mark.parametrize("options", [{"split": ""}, {"split": None}, {"label": ""}, {"person": 3}])
def test_option_names_must_be_names(options):
    with pytest.raises(InputError, match=f"Expected {next(iter(options))} as a name"):
        load((GREY, None), **options)


def test_a_private_count_needs_a_declared_one():
    for records_given in (None, 0, -3, 1.5, True, "5"):
        with pytest.raises(InputError, match="needs a declared public size: give `records`"):
            load((GREY, None), private_count=True, records=records_given)
    with pytest.raises(InputError, match="add `private_count=True`"):
        load((GREY, None), records=5)
    box = load((GREY, None), private_count=True, records=1000)
    assert (box.spec.records, box.spec.count_public) == (1000, False)
    assert len(records(box)) == 5
    person = np.array([1, 1, 2, 2, 2])
    assert load((GREY, None, person), private_count=True, records=7).spec.records == 7


def test_progress_carries_counts_and_only_public_ones():
    many = np.zeros((1203, 2, 2), np.uint8)
    calls: list[tuple[int, int, str]] = []
    load((many, None), progress=lambda *call: calls.append(call))
    assert calls == [(at, 1203, "reading images") for at in (0, 500, 1000, 1203)]
    for options, arrays in (({"private_count": True, "records": 9}, (many, None)), ({}, (many, None, np.arange(1203)))):
        calls.clear()
        load(arrays, progress=lambda *call: calls.append(call), **options)
        assert calls == [(0, 0, "reading images")]


def test_the_name_is_the_resolved_path(tmp_path, monkeypatch):
    (tmp_path / "cats").mkdir()
    Image.fromarray(GREY[0]).save(tmp_path / "cats" / "a.png")
    monkeypatch.chdir(tmp_path)
    assert load("cats").spec.name == str(tmp_path / "cats")
    assert load(Path("cats/../cats")).spec.name == str(tmp_path / "cats")
    assert not load("cats").spec.public


def test_public_images_come_with_their_provenance():
    public = load_public((GREY, [0, 1, 0, 1, 0]), " from a museum ", size=3)
    assert public.provenance == "from a museum"
    assert public.images.pixels.shape == (5, 1, 3, 3)
    assert public.images.classes == ("0", "1") and public.images.labels.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("provenance", ["", "  \n", None])
def test_public_images_without_provenance_are_refused_before_reading(provenance):
    with pytest.raises(InputError, match="`provenance=TEXT`"):
        load_public("no/such/place", provenance)


def test_an_images_object_keeps_its_classes():
    images = Images(np.zeros((3, 3, 4, 4), np.uint8), np.array([0, 2, 0]), ("x", "y", "z"))
    box = load(images)
    assert box.spec.classes == ("x", "y", "z") and box.spec.shape == (3, 4, 4)
    assert records(box).labels.tolist() == [0, 2, 0]
    with pytest.raises(InputError, match=r"unknown label 5 in row 1"):
        load(Images(images.pixels, np.array([0, 5, 0]), ("x", "y", "z")))
    with pytest.raises(InputError, match="no column who"):
        load(images, person="who")
    with pytest.raises(InputError, match="2 channels"):
        load(Images(np.zeros((3, 2, 4, 3), np.uint8), np.array([0, 2, 0])))
