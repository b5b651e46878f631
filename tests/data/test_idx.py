"""Folders of idx files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import load
from sfumato.data.private import records
from tests.made_up import expects

IMAGES = np.random.default_rng(3).integers(0, 256, (9, 4, 5), dtype=np.uint8)
LABELS = np.array([1, 0, 7, 7, 1, 0, 0, 1, 7], np.uint8)


def idx(array: np.ndarray, magic: int | None = None) -> bytes:
    head = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim if magic is None else magic, *array.shape)
    return head + array.tobytes()


def write(folder: Path, images: bytes, labels: bytes, split: str = "train", gz: bool = False, dot: bool = False):
    for kind, data in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
        name = f"{split}-{kind.replace('-', '.', 1) if dot else kind}"
        (folder / (f"{name}.gz" if gz else name)).write_bytes(gzip.compress(data) if gz else data)


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("dot", [False, True])
def test_both_splits(folder, gz, dot):
    write(folder, idx(IMAGES), idx(LABELS), gz=gz, dot=dot)
    box = load(folder)
    assert box.spec.classes == ("0", "1", "7") and box.spec.shape == (1, 4, 5) and not box.spec.public
    assert np.array_equal(records(box).read(slice(None))[:, 0], IMAGES)
    assert records(box).labels.tolist() == [1, 0, 2, 2, 1, 0, 0, 1, 2]
    expects(folder, "has no split test; it has train", split="test")
    write(folder, idx(IMAGES[:2]), idx(LABELS[:2]), "t10k", gz, dot)
    assert load(folder, split="test").spec.records == 2


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (
            idx(IMAGES)[:-1],
            idx(LABELS),
            r"train-images-idx3-ubyte ends 1 bytes too early; replace it by a complete copy",
        ),
        (idx(IMAGES)[:10], idx(LABELS), r"train-images-idx3-ubyte ends 6 bytes too early"),
        (idx(IMAGES) + b"x", idx(LABELS), r"train-images-idx3-ubyte is longer than its header says"),
        (idx(IMAGES), idx(LABELS)[:-2], r"train-labels-idx1-ubyte ends 2 bytes too early"),
        (idx(IMAGES), idx(LABELS) + b"x", r"train-labels-idx1-ubyte is longer"),
        (idx(IMAGES, 0x0D03), idx(LABELS), r"train-images-idx3-ubyte does not start like an idx file .*0x00000d03"),
        (idx(IMAGES), idx(LABELS, 7), r"train-labels-idx1-ubyte does not start like an idx file"),
        (
            idx(IMAGES),
            idx(LABELS[:8]),
            r"has 9 images but .*train-labels-idx1-ubyte has 8 labels; take both from the same",
        ),
        (idx(IMAGES[:, :0]), idx(LABELS), r"has images without pixels"),
        (idx(IMAGES[:0]), idx(LABELS[:0]), r"set has no images"),
        (struct.pack(">4I", 0x803, 9, 2**32 - 1, 2**32 - 1), idx(LABELS), r"bytes too early"),
        (idx(IMAGES), struct.pack(">2I", 0x801, 2**32 - 1), r"bytes too early"),
    ],
)
def test_damage_is_named(folder, images, labels, says):
    write(folder, images, labels)
    expects(folder, says)


def test_damaged_gzip_is_named(folder):
    write(folder, idx(IMAGES), idx(LABELS), gz=True)
    path = folder / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], b"junk", whole[:-6] + b"\0" * 6, whole[:30] + b"\xff" * 30 + whole[60:]):
        path.write_bytes(data)
        expects(folder, "train-images-idx3-ubyte.gz cannot be unpacked .*replace it by a good copy")


def test_labels_must_be_there(folder):
    write(folder, idx(IMAGES), idx(LABELS))
    (folder / "train-labels-idx1-ubyte").unlink()
    expects(folder, r"set has train-images-idx3-ubyte but no train-labels-idx1-ubyte; add the file")


def test_columns_are_refused(folder):
    write(folder, idx(IMAGES), idx(LABELS))
    expects(folder, "has no column who to use as person; leave --person out", person="who")
