"""Hermite features against Mehler's formula and a direct computation, and their norm."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import eval_hermite

from sfumato.methods.embedding.hermite import HermiteFeatures, hermite, size


def direct(c, x, rho):
    weight = math.sqrt((1 - rho) * rho**c / (2**c * math.factorial(c) * math.sqrt((1 - rho) / (1 + rho))))
    return weight * eval_hermite(c, x) * np.exp(-rho / (1 + rho) * x**2)


@pytest.mark.parametrize("rho", [0.1, 0.6, 0.95])
def test_the_recurrence_gives_the_papers_functions(rho):
    x = np.linspace(-3, 3, 13)
    found = hermite(torch.from_numpy(x), 8, rho).numpy()
    for c in range(9):
        assert np.allclose(found[:, c], direct(c, x, rho), atol=1e-12)


def test_many_orders_make_the_gaussian_kernel():
    x, y, rho = torch.tensor(0.3, dtype=torch.float64), torch.tensor(-0.9, dtype=torch.float64), 0.7
    found = hermite(x, 150, rho) @ hermite(y, 150, rho)
    assert float(found) == pytest.approx(math.exp(-rho / (1 - rho**2) * 1.2**2), abs=1e-9)


def features(**more):
    settings = {"order": 3, "rho": 0.6, "reach": 1.5, "groups": 4, "members": 2, "product": 2.0} | more
    return HermiteFeatures(36, random=torch.Generator().manual_seed(1), **settings)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_features_are_the_two_kernels_side_by_side(members):
    phi, images = features(members=members), torch.rand(2, 1, 6, 6, dtype=torch.float64)
    found = phi(images)
    assert found.shape == (2, size(36, 3, 4, members)) == (2, phi.size)
    for image, row in zip(images.flatten(1).numpy(), found.numpy(), strict=True):
        psi = np.stack([direct(c, 1.5 * (2 * image - 1), 0.6) for c in range(4)], 1)
        assert np.allclose(row[: 36 * 4], psi.ravel() / 6)
        outer = [
            math.prod(psi[pixel, c] for pixel, c in zip(group, orders, strict=True))
            for group in phi.groups.tolist()
            for orders in product(range(4), repeat=members)
        ]
        assert np.allclose(row[36 * 4 :], 2 * np.array(outer) / 2)  # weight 2, over the root of four groups


def test_the_product_kernel_may_have_an_order_of_its_own():
    images = torch.rand(3, 1, 6, 6, dtype=torch.float64)
    both, own = features(order=3)(images), features(order=9, product_order=3)
    found = own(images)
    assert found.shape == (3, size(36, 9, 4, 2, 3)) == (3, own.size) and own.size == 36 * 10 + 4 * 16
    assert torch.allclose(found[:, 36 * 10 :], both[:, 36 * 4 :])
    assert torch.allclose(found[:, : 36 * 10], features(order=9, groups=0)(images))


@pytest.mark.parametrize("order", [0, 1, 40])
def test_no_image_is_longer_than_its_blocks_allow(order):
    phi = features(order=max(order, 1), members=1)
    random = torch.rand(50, 1, 6, 6)
    extreme = torch.cat([random, (random > 0.5).float(), torch.zeros(1, 1, 6, 6), torch.full((1, 1, 6, 6), 50.0)])
    rows = phi(extreme)
    assert (rows[:, : -phi.groups.numel() * (max(order, 1) + 1)].norm(dim=1) <= 1 + 1e-6).all()
    assert (rows.norm(dim=1) <= math.sqrt(5) + 1e-5).all()


def test_groups_are_public_and_can_be_left_out():
    assert torch.equal(features().groups, features().groups)
    assert features(groups=0)(torch.rand(3, 1, 6, 6)).shape == (3, 36 * 4)
