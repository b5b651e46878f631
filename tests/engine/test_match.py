"""Fitting a generator to released features: its distances, classes without a target, and its resumption."""

from __future__ import annotations

import pytest
import torch

from sfumato import Run
from sfumato.engine.match import Learned, match, unbiased, unit, warm_cosine
from sfumato.methods.embedding.reweight import Reweighting
from sfumato.networks import ConvGenerator


def generator():
    torch.manual_seed(0)
    return ConvGenerator((1, 8, 8), ("a", "b"), 4, 8, None)


def pixels(images):
    return images.flatten(1)


def fitted(target, **more):
    return match(generator(), target, pixels, Run(device="cpu"), steps=3, batch=4, learning_rate=1e-2, **more)


def test_pairs_of_an_image_with_itself_are_left_out():
    features, target = torch.randn(2, 5, 7), torch.randn(2, 7)
    pairs = torch.einsum("cif,cjf->cij", features, features)
    own = (pairs.sum((1, 2)) - pairs.diagonal(dim1=1, dim2=2).sum(1)) / 20
    expected = (own - 2 * (features.mean(1) * target).sum(1)).mean()
    assert float(unbiased(features, target)) == pytest.approx(float(expected), abs=1e-5)


def test_for_features_of_norm_one_both_distances_differ_by_a_constant():
    target = torch.randn(2, 7)
    one, two = (torch.nn.functional.normalize(torch.randn(2, 5, 7), dim=2) for _ in range(2))
    gap = unbiased(one, target) - unit(one, target)
    assert float(gap) == pytest.approx(-1 / 4, abs=1e-5)
    assert float(unbiased(two, target) - unit(two, target)) == pytest.approx(float(gap), abs=1e-5)


def test_without_a_target_the_generator_stays_as_it_is():
    before, after = generator().state_dict(), fitted(torch.full((2, 64), torch.nan)).state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_a_class_without_a_target_is_left_out():
    target = torch.stack([torch.ones(64), torch.full((64,), torch.nan)])
    assert all(v.isfinite().all() for v in fitted(target, distance=unbiased).state_dict().values())


def test_the_rate_rises_and_falls_to_nothing():
    factors = [warm_cosine(step, 100) for step in range(101)]
    assert factors[0] == pytest.approx(0.2) and factors[4] > 0.99 and factors[100] == pytest.approx(0, abs=1e-12)


def test_only_a_distance_with_a_state_is_kept_with_the_run():
    assert isinstance(Reweighting(torch.randn(4, 6), 0.1), Learned) and not isinstance(unit, Learned)
