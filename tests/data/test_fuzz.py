"""Whatever the input, `load` gives a readable box or one sentence: nothing but InputError ever comes out."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from sfumato.data import load
from sfumato.data.private import records
from sfumato.errors import InputError

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LONG = settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))


def try_to_load(source: object, **options: object) -> None:
    """The property: a box whose records agree with its spec, or one printable sentence."""
    try:
        box = load(source, **options)
    except InputError as error:
        text = str(error)
        assert text.endswith(".") and text.isprintable() and len(text) < 2000
        return
    with box:
        inside = records(box)
        assert inside.read(slice(None)).shape == (len(inside), *box.spec.shape)
        assert inside.labels.min() >= 0 and inside.labels.max() < len(box.spec.classes)
        assert inside.digests.shape == (len(inside), 32)
        units = len(inside) if inside.persons is None else inside.persons.max() + 1
        assert not box.spec.count_public or box.spec.records == units
        repr(box).encode()


def _packed(kind: str, mode: str, **options: object) -> bytes:
    out = io.BytesIO()
    pixels = np.arange(6 * 5 * 3, dtype=np.uint8).reshape(6, 5, 3)
    Image.fromarray(pixels).convert(mode).save(out, kind, **options)
    return out.getvalue()


SEEDS = [_packed("PNG", mode) for mode in ("L", "RGB", "RGBA", "P", "1", "LA")]
SEEDS += [_packed(kind, mode) for kind in ("JPEG", "TIFF") for mode in ("L", "RGB", "CMYK")]
SEEDS += [_packed("GIF", "P"), _packed("BMP", "RGB"), _packed("WEBP", "RGBA"), _packed("PPM", "RGB")]
SEEDS += [_packed("PPM", "I"), _packed("TIFF", "I;16"), _packed("TIFF", "F")]
SEEDS += [_packed("GIF", "L", save_all=True, append_images=[Image.new("L", (6, 5), 9)])]


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """One of the seeds, with up to four stretches overwritten, cut out or put in."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        stretch = draw(st.integers(0, 8))
        data[at : at + stretch] = draw(st.binary(max_size=8))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


NAMES = st.sampled_from(
    [
        "a.png",
        "b.jpg",
        "c.tiff",
        "d.gif",
        "x/a.png",
        "x/b.png",
        "y/a.png",
        "x/deep/a.png",
        "train/a.png",
        "train/x/a.png",
        "test/a.png",
        "val/y/b.png",
        ".hidden.png",
        "notes.txt",
        "photo.heic",
        "a\nb/c.png",
        "é/ü.png",
        "data.parquet",
        "metadata.csv",
        "metadata.jsonl",
        "metadata.parquet",
        "x/metadata.csv",
        "train-images-idx3-ubyte",
        "t.npz",
    ]
)
IMAGES = st.sampled_from(["x/a.png", "x/b.jpg", "y/a.tif", "y/b.gif", "y/c.webp"])
GOOD = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(1, 12),
        "grey": st.booleans(),
        "split": st.sampled_from(["train", "test", "val"]),
        "label": st.sampled_from(["label", "hue"]),
        "person": st.sampled_from(["person", "who"]),
    },
)
WILD = st.fixed_dictionaries(
    {},
    optional={
        "size": st.one_of(st.integers(-2, 12), st.just(2.5), st.just(10**9)),
        "split": st.sampled_from(["train", "", "no\nsuch", "\ud800"]),
        "label": st.sampled_from(["label", "file_name", "", "images", "\x00"]),
        "private_count": st.booleans(),
        "records": st.one_of(st.none(), st.integers(-1, 5)),
    },
)
# Mostly sensible, since a refused option hides what lies behind it.
OPTIONS = st.integers(0, 9).flatmap(lambda die: WILD if die == 9 else GOOD if die >= 6 else st.just({}))
CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["a.png", "x/a.png", "../a.png", "/a.png", "a.png/..", "cat", "dog", ""]),
)


def write(root: str, name: str, data: bytes) -> None:
    path = os.fsencode(root) + b"/" + name.encode()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(data)
    except OSError:
        pass  # a file and a folder of one name


@st.composite
def folders(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    content = st.one_of(st.sampled_from(SEEDS), mutated(SEEDS), st.binary(max_size=40))
    names = draw(st.sampled_from([NAMES, IMAGES, IMAGES]))
    return draw(st.lists(st.tuples(names, content), max_size=6))


def check_files(files: list[tuple[str, bytes]], options: dict) -> None:
    with tempfile.TemporaryDirectory() as root:
        for name, data in files:
            write(root, name, data)
        try_to_load(root, **options)


def _table(rows: list[dict]) -> bytes:
    out = io.BytesIO()
    pq.write_table(
        pa.table(
            {
                "file_name": [str(row.get("file_name")) for row in rows],
                "label": [str(row.get("label")).encode("utf-8", "replace") for row in rows],
            }
        ),
        out,
    )
    return out.getvalue()


@st.composite
def metadata(draw: st.DrawFn) -> tuple[str, bytes]:
    """A metadata file, from well formed to nonsense."""
    good = [{"file_name": name, "label": "cat", "person": "eve"} for name in ("a.png", "x/a.png")]
    keys = st.sampled_from(["file_name", "label", "person", "hue", ""])
    rows = good[: draw(st.integers(0, 2))] + draw(st.lists(st.dictionaries(keys, CELLS, max_size=4), max_size=3))
    kind = draw(st.sampled_from(["csv", "jsonl", "parquet", "noise"]))
    if kind == "jsonl":
        data = "\n".join(json.dumps(row) for row in rows).encode()
    elif kind == "csv":
        lines = [["file_name", "label", "person"], *([str(cell) for cell in row.values()] for row in rows)]
        data = "\n".join(",".join(line) for line in lines).encode("utf-8", "replace")
    elif kind == "parquet":
        data = draw(mutated([_table(rows)]))
    else:
        kind = draw(st.sampled_from(["csv", "jsonl"]))
        data = draw(st.one_of(st.binary(max_size=60), st.just(b"[" * 9999)))
    return f"metadata.{kind}", data


def check_metadata(table: tuple[str, bytes], options: dict) -> None:
    check_files([("a.png", SEEDS[0]), ("x/a.png", SEEDS[0]), table], options)


ARRAYS = st.one_of(
    arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=5, min_side=0, max_side=5)),
    arrays.arrays(np.uint8, st.tuples(st.integers(0, 4), st.just(3), st.just(3), st.just(3))),
    arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, max_dims=4, max_side=4)),
    st.just(np.zeros((3, 4, 4), np.uint8)),
)
COLUMNS = st.one_of(
    st.none(),
    arrays.arrays(st.sampled_from([np.int64, np.uint8, bool, "U2", "S2", float, "M8[s]"]), st.integers(0, 4)),
    st.lists(CELLS, min_size=3, max_size=3),
    st.just(np.array([0, 1, 0])),
)


def check_arrays(parts: list, options: dict) -> None:
    try_to_load(tuple(parts), **options)
    named = {
        name: np.asarray(part)
        for name, part in zip(("images", "labels", "person"), parts, strict=False)
        if part is not None
    }
    with tempfile.TemporaryDirectory() as root:
        try:
            np.savez(f"{root}/set.npz", **named, allow_pickle=True)
        except Exception:  # not all that hypothesis invents can be saved
            return
        try_to_load(f"{root}/set.npz", **options)


def _npz(save: Callable[..., None], **content: np.ndarray) -> bytes:
    out = io.BytesIO()
    save(out, **content)
    return out.getvalue()


PIXELS = np.arange(32, dtype=np.uint8).reshape(2, 4, 4)
IDX_IMAGES = struct.pack(">4I", 0x803, 2, 4, 4) + PIXELS.tobytes()
IDX_LABELS = struct.pack(">2I", 0x801, 2) + b"\0\1"
NPZ = [
    _npz(save, images=PIXELS, labels=np.array([0, 1]), person=np.array(["a", "b"]))
    for save in (np.savez, np.savez_compressed)
]
NPZ += [
    _npz(
        np.savez,
        train_bytes=np.frombuffer(SEEDS[0] * 2, np.uint8),
        train_offsets=np.array([0, len(SEEDS[0]), 2 * len(SEEDS[0])]),
        train_labels=np.array([0, 1]),
    )
]


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"image": [SEEDS[0], SEEDS[1]], "label": [0, 1], "person": ["a", "b"]}), out)
    return out.getvalue()


CONTAINERS = st.one_of(
    st.tuples(st.just("set.npz"), mutated(NPZ)),
    st.tuples(st.just("set.parquet"), mutated([_parquet()])),
    st.tuples(st.just("train-images-idx3-ubyte"), mutated([IDX_IMAGES])),
    st.tuples(st.just("train-labels-idx1-ubyte"), mutated([IDX_LABELS])),
    st.tuples(st.just("train-images-idx3-ubyte.gz"), mutated([gzip.compress(IDX_IMAGES, mtime=0)])),
)


def check_container(file: tuple[str, bytes], options: dict) -> None:
    name, data = file
    with tempfile.TemporaryDirectory() as root:
        if name.startswith("train-"):
            write(root, "train-labels-idx1-ubyte", IDX_LABELS)
            if "labels" in name:
                write(root, "train-images-idx3-ubyte", IDX_IMAGES)
        write(root, name, data)
        try_to_load(root if name.startswith("train-") else f"{root}/{name}", **options)


SOURCES = st.one_of(
    st.text(max_size=30),
    st.binary(max_size=10),
    st.integers(),
    st.lists(CELLS, max_size=4),
    st.builds(
        "{}:{}".format,
        st.sampled_from(
            ["fashion-mnist", "fairface", "cifar10", "celeba-hair", "ffhq-gender", "places365-3", "digits"]
        ),
        st.text(min_size=1, max_size=9),
    ),
)


def check_sources(source: object, options: dict) -> None:
    try_to_load(source, **options)


@QUICK
@given(folders(), OPTIONS)
def test_files(files, options):
    check_files(files, options)


@QUICK
@given(metadata(), OPTIONS)
def test_metadata(table, options):
    check_metadata(table, options)


@QUICK
@given(st.tuples(ARRAYS, COLUMNS) | st.tuples(ARRAYS, COLUMNS, COLUMNS), OPTIONS)
def test_arrays(parts, options):
    check_arrays(list(parts), options)


@QUICK
@given(CONTAINERS, OPTIONS)
def test_containers(file, options):
    check_container(file, options)


@QUICK
@given(SOURCES, OPTIONS)
def test_sources(source, options):
    check_sources(source, options)


@pytest.mark.slow
@LONG
@given(folders(), OPTIONS)
def test_many_files(files, options):
    check_files(files, options)


@pytest.mark.slow
@LONG
@given(metadata(), OPTIONS)
def test_much_metadata(table, options):
    check_metadata(table, options)


@pytest.mark.slow
@LONG
@given(st.tuples(ARRAYS, COLUMNS) | st.tuples(ARRAYS, COLUMNS, COLUMNS), OPTIONS)
def test_many_arrays(parts, options):
    check_arrays(list(parts), options)


@pytest.mark.slow
@LONG
@given(CONTAINERS, OPTIONS)
def test_many_containers(file, options):
    check_container(file, options)
