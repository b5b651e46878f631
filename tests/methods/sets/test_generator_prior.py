"""A set whose images come from a generator: weights are moved, and pixels follow."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from sfumato import PrivateSet, Run, load
from sfumato.data.public import PublicImages
from sfumato.methods.sets.generator_prior import PriorDescent
from sfumato.networks.image_set import ImageSet
from sfumato.types import Images
from tests.methods.sets.test_dp_sinkhorn import striped
from tests.methods.sets.test_private_set import TINY
from tests.methods.test_contract import learn


def descent(points=None):
    return PriorDescent(points or ImageSet((1, 8, 8), ("a", "b"), each=3), 0.01, 8, Run(device="cpu"))


def test_a_step_in_the_weights_goes_down_the_loss_of_the_images():
    prior = descent()
    target = torch.linspace(0, 1, 64).view(8, 8)
    gaps = []
    for t in range(30):
        loss = (prior.points.images - target).square().mean()
        gaps.append(float(loss.detach()))
        prior.step(loss, t)
    assert gaps[-1] < 0.5 * gaps[0]
    assert torch.equal(prior.points.images.detach().flatten(0, 1), prior.images().detach())


def test_its_slope_is_that_of_the_whole():
    prior = descent()
    (prior.images() * 0.7).square().sum().backward()
    exact = [p.grad.clone() for p in prior.G.parameters()]
    prior.step((prior.points.images * 0.7).square().sum(), 0)
    assert all(
        torch.allclose(p.grad, g, rtol=1e-4, atol=1e-6) for p, g in zip(prior.G.parameters(), exact, strict=True)
    )


def test_a_checkpoint_brings_weights_and_moments_back():
    one, two = descent(), descent()
    one.step(one.points.images.square().sum(), 0)
    two.load_state_dict(deepcopy(one.state_dict()))
    two.points.load_state_dict(one.points.state_dict())
    for prior in (one, two):
        prior.step(prior.points.images.square().sum(), 1)
    assert torch.equal(one.points.images, two.points.images)


@pytest.mark.parametrize("prior", ["pixels", "generator"])
def test_the_set_is_released_whatever_moves_it(prior):
    net, _, run, _ = learn(PrivateSet(**TINY, prior=prior, prior_width=8), load(striped()), tape=1)
    assert isinstance(net, ImageSet) and run.odometer.complete
    assert ((net.images >= 0) & (net.images <= 1)).all()


def test_public_images_are_the_first_of_a_set():
    from sfumato.methods.sets.synthetic_set import fresh
    from sfumato.types import DataSpec

    spec = DataSpec("arrays", 60, (1, 8, 8), ("0", "1"))
    public = PublicImages(Images(np.full((3, 1, 8, 8), 77, np.uint8), np.zeros(3, int), ("x",)), "made up")
    assert (fresh(spec, 4, None, Run(device="cpu"), public).images * 255).round().eq(77).all()
