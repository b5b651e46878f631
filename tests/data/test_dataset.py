"""Data sets of torch, and what behaves like them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from sfumato import Images, Unit, load
from sfumato.data.private import records
from tests.made_up import arrays, expects


class Pairs(Dataset):
    """Items made by a function of their number."""

    def __init__(self, item, n=12, classes=None):
        self.item, self.n = item, n
        if classes:
            self.classes = classes

    def __len__(self):
        return self.n

    def __getitem__(self, at):
        if at >= self.n:
            raise IndexError(at)
        return self.item(at)


PIXELS, LABELS = arrays(n=12)


FORMS = {
    "pictures": lambda at: Image.fromarray(PIXELS[at]),
    "arrays": lambda at: PIXELS[at],
    "channels last": lambda at: PIXELS[at][..., None],
    "bytes": lambda at: torch.from_numpy(PIXELS[at])[None],
    "fractions": lambda at: torch.from_numpy(PIXELS[at])[None].float() / 255,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_image_is_the_same_record(form):
    """So that the ledger knows them again, however they are wrapped."""
    with load(Pairs(lambda at: (FORMS[form](at), int(LABELS[at])))) as box, load((PIXELS, LABELS)) as plain:
        assert box.spec == plain.spec and np.array_equal(records(box).digests, records(plain).digests)


def test_names_of_classes_and_labels_of_any_kind():
    names = ["ill", "well", "unknown"]
    for label in (int, torch.tensor, np.int64):
        with load(Pairs(lambda at, kind=label: (PIXELS[at], kind(int(LABELS[at]))), classes=names)) as box:
            assert box.spec.classes == tuple(names)
    with load(Pairs(lambda at: (PIXELS[at], names[LABELS[at]]), classes=["other"])) as box:
        assert box.spec.classes == ("ill", "unknown", "well")


def test_a_third_part_says_who_is_shown():
    with load(Pairs(lambda at: (PIXELS[at], 0, f"p{at // 3}"))) as box:
        assert box.spec.unit is Unit.PERSON and box.spec.records == 4
    expects(Pairs(lambda at: (PIXELS[at], 0)), "third part", person="person")


def test_tensors_and_synthetic_images_are_data_sets_too():
    with load(TensorDataset(torch.from_numpy(PIXELS)[:, None], torch.from_numpy(LABELS))) as box:
        assert box.spec.records == 12 and box.spec.shape == (1, 8, 8)
    with load(Images(PIXELS[:, None], LABELS, ("a", "b", "c"))) as box:
        assert box.spec.classes == ("a", "b", "c")


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(PIXELS[0], 0)])


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (Pairs(lambda at: PIXELS[at]), "is not \\(image, label\\)"),
        (Pairs(lambda at: (PIXELS[at],)), "is not \\(image, label\\)"),
        (Pairs(lambda at: (PIXELS[at], 0, 1)[: 2 + at % 2]), "of 2 and of 3 parts"),
        (Pairs(lambda at: (PIXELS[at] / 255.0 * 2 - 1, 0)), "leave out what normalises"),
        (Pairs(lambda at: (np.full((8, 8), np.nan), 0)), "outside of 0 to 1"),
        (Pairs(lambda at: (np.zeros(8, np.uint8), 0)), "has 1 axes"),
        (Pairs(lambda at: (np.zeros((8, 8), np.int32), 0)), "has the type int32"),
        (Pairs(lambda at: (np.zeros((8, 8, 5), np.uint8), 0)), "shape"),
        (Pairs(lambda at: (PIXELS[at], 1.5)), "has the type float64"),
        (Pairs(lambda at: (PIXELS[at], 7), classes=["a", "b"]), "unknown label 7"),
        (Pairs(lambda at: 1 / 0), "Item 0 of the data set cannot be read"),
        (Pairs(lambda at: (PIXELS[at], 0), n=0), "no images"),
        (Stream(), "a data set with a length"),
        (3, "a data set with a length"),
        ({"a": 1}, "a data set with a length"),
        (b"scans", "Expected data as a path"),
    ],
)
def test_what_is_no_set_of_images_is_one_sentence(source, says):
    expects(source, says)


def test_columns_and_splits_are_refused():
    expects(Pairs(lambda at: (PIXELS[at], 0)), "no column", label="disease")
    expects(Pairs(lambda at: (PIXELS[at], 0)), "no split", split="test")
