"""Images as people use them: a sequence, a torch data set, a table."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from sfumato import Images, InputError
from tests.made_up import arrays


@pytest.fixture
def images() -> Images:
    pixels, labels = arrays(n=10, size=4, classes=3)
    return Images(pixels[:, None], labels, ("a", "b", "c"))


def test_a_place_is_a_pair_and_a_slice_is_images(images):
    image, label = images[4]
    assert image.dtype == torch.float32 and image.shape == (1, 4, 4) and label == 1 and isinstance(label, int)
    assert torch.equal((image * 255).round().byte(), torch.from_numpy(images.pixels[4]))
    assert torch.equal(images[-1][0], images[9][0]) and images[np.int64(2)][1] == 2
    assert isinstance(images[2:5], Images) and images[2:5].labels.tolist() == [2, 0, 1]
    assert len(images[images.labels == 0]) == 4 and images[[7, 1]].labels.tolist() == [1, 1]
    with pytest.raises(IndexError):
        images[10]


def test_it_is_gone_through_once_and_ends(images):
    pairs = list(images)
    assert len(pairs) == 10 and [label for _, label in pairs] == images.labels.tolist()


def test_a_loader_makes_batches_of_it(images):
    batches = list(DataLoader(images, batch_size=4, shuffle=False))
    assert [tuple(x.shape) for x, _ in batches] == [(4, 1, 4, 4), (4, 1, 4, 4), (2, 1, 4, 4)]
    assert torch.cat([y for _, y in batches]).tolist() == images.labels.tolist()


def test_its_words_are_short(images):
    assert repr(images) == "Images(10 of 1x4x4 in 3 classes: a, b, c)"
    many = Images(np.zeros((12_000, 3, 2, 2), np.uint8), np.zeros(12_000, int), tuple("abcdefgh"))
    assert repr(many) == "Images(12,000 of 3x2x2 in 8 classes: a, b, c, d, e, ...)"


@pytest.mark.parametrize(("package", "act"), [("pandas", Images.to_pandas), ("datasets", Images.to_hf)])
def test_without_the_extra_there_is_a_sentence(images, package, act, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"needs the package {package}; install it with pip install"):
        act(images)


def test_as_a_table(images):
    pytest.importorskip("pandas")
    table = images.to_pandas()
    assert list(table.columns) == ["image", "label", "class"] and len(table) == 10
    assert np.array_equal(table["image"][3], images.pixels[3, 0]) and table["class"][4] == "b"
    colour = Images(np.zeros((2, 3, 4, 5), np.uint8), np.zeros(2, int)).to_pandas()
    assert colour["image"][0].shape == (4, 5, 3)


@pytest.mark.filterwarnings("ignore")  # of a library of that library
def test_as_a_dataset_of_the_hub(images):
    pytest.importorskip("datasets")
    made = images.to_hf()
    assert made.features["label"].names == ["a", "b", "c"] and made["label"][:] == images.labels.tolist()
    assert np.array_equal(np.asarray(made[3]["image"]), images.pixels[3, 0])
