"""Hugging Face datasets; with the extra `hf` the library's own, without it a stand-in with the same ways."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image as Pillow

from sfumato import Unit, load
from sfumato.data.private import records
from tests.made_up import arrays, expects

PIXELS, LABELS = arrays(n=12)
NAMES = ["ill", "well", "unknown"]


class Image:
    """The kind of an image column."""


class ClassLabel:
    """The kind of a label column whose classes have names."""

    names = NAMES


class Value:
    """The kind of any other column."""


class StandIn:
    """A dataset in memory."""

    def __init__(self, columns, features):
        self.columns, self.features = columns, features

    @property
    def column_names(self):
        return list(self.columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, at):
        return self.columns[at] if isinstance(at, str) else {name: column[at] for name, column in self.columns.items()}

    def select_columns(self, names):
        return StandIn({name: self.columns[name] for name in names}, {name: self.features[name] for name in names})


StandIn.__module__ = "datasets.stand_in"


class Splits(dict):
    """Several splits."""


Splits.__module__ = "datasets.stand_in"


class Stream:
    """A dataset that is read as it comes."""

    features = {"image": Image()}


Stream.__module__ = "datasets.stand_in"


def made(**more):
    columns = {"image": [Pillow.fromarray(p) for p in PIXELS], "label": LABELS.tolist(), **more}
    features = {"image": Image(), "label": ClassLabel(), **{name: Value() for name in more}}
    return StandIn(columns, features)


def test_a_dataset_is_the_same_records_as_its_arrays():
    with load(made()) as box, load((PIXELS, LABELS)) as plain:
        assert box.spec.classes == tuple(NAMES) and box.spec.records == 12
        assert np.array_equal(records(box).digests, records(plain).digests)


def test_a_column_says_who_is_shown_or_what_the_class_is():
    source = made(patient=[f"p{at // 4}" for at in range(12)], side=["left", "right"] * 6)
    with load(source, person="patient", label="side") as box:
        assert box.spec.unit is Unit.PERSON and box.spec.records == 3 and box.spec.classes == ("left", "right")


def test_splits_are_chosen_by_name():
    with load(Splits(train=made(), test=made()), split="test") as box:
        assert box.spec.records == 12
    expects(Splits(train=made()), "no split validation", split="validation")


@pytest.mark.parametrize(
    ("source", "says", "options"),
    [
        (made(), "has no column who to use as person; it has image, label", {"person": "who"}),
        (made(), "has no column what to use as label", {"label": "what"}),
        (made(patient=[None] * 12), "has no person in the column patient", {"person": "patient"}),
        (StandIn({"label": [0]}, {"label": Value()}), "has 0 columns of images", {}),
        (Stream(), "is a stream; load it without streaming", {}),
    ],
)
def test_what_is_wrong_is_one_sentence(source, says, options):
    expects(source, says, **options)


@pytest.mark.filterwarnings("ignore")  # of a library of that library
def test_the_library_s_own_dataset():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    rows = {"image": [Pillow.fromarray(p) for p in PIXELS], "label": LABELS.tolist()}
    source = datasets.DatasetDict({"train": datasets.Dataset.from_dict(rows, features=features)})
    with load(source) as box, load((PIXELS, LABELS)) as plain:
        assert box.spec.classes == tuple(NAMES)
        assert np.array_equal(records(box).digests, records(plain).digests)
    expects(source["train"].to_iterable_dataset(), "is a stream")
