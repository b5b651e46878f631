"""Generators: labels in their proportions, images that come back the same."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sfumato.networks import KINDS, kind_of, load_generator
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.generator import Generator
from sfumato.networks.labels import allot


@given(st.integers(0, 300), st.lists(st.floats(0.01, 10), min_size=1, max_size=6))
def test_labels_are_allotted_within_one_of_their_share(count, weights):
    counts = np.bincount(allot(count, weights, torch.Generator().manual_seed(0)), minlength=len(weights))
    share = count * np.array(weights) / sum(weights)
    assert counts.sum() == count
    assert (np.abs(counts - share) < 1 + 1e-9).all()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 30, 27), (1, 8, 8)])
def test_images_have_the_asked_shape_and_depend_on_the_seed(shape):
    net = ConvGenerator(shape, ("a", "b"), latent=4, width=8)
    one, same, other = (net.sample(6, seed=s) for s in (0, 0, 1))
    assert one.pixels.shape == (6, *shape) and one.pixels.dtype == np.uint8
    assert np.array_equal(one.pixels, same.pixels) and not np.array_equal(one.pixels, other.pixels)
    assert sorted(one.labels.tolist()) == [0, 0, 0, 1, 1, 1]


def test_a_generator_comes_back_from_its_configuration_and_weights():
    net = ConvGenerator((1, 8, 8), ("a", "b", "c"), latent=4, width=8, label_weights=[0.5, 0.25, 0.25])
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(8, seed=5).pixels, again.sample(8, seed=5).pixels)
    assert np.bincount(again.sample(8).labels).tolist() == [4, 2, 2]


def test_wrong_labels_and_kinds_are_refused():
    net = ConvGenerator((1, 8, 8), ("a", "b"), latent=4, width=8)
    with pytest.raises(ValueError, match="labels"):
        net.sample(3, labels=[0, 1, 2])
    with pytest.raises(ValueError, match="kind"):
        load_generator({"kind": "oracle"}, {})


def test_no_images_is_an_empty_set():
    assert len(ConvGenerator((1, 8, 8), ("a",), latent=4, width=8).sample(0)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_where_the_table_says_and_names_itself(kind):
    cls = kind_of(kind)
    assert issubclass(cls, Generator)
    assert cls(shape=(1, 8, 8), classes=("a", "b")).config()["kind"] == kind


def test_networks_know_no_method():
    asked = "import sys, sfumato.networks; print([m for m in sys.modules if m.startswith('sfumato.methods')])"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
