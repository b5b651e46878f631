"""Tangent features against automatic differentiation."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from sfumato.methods.embedding.tangent import Tangent


def phi():
    return Tangent(16, 3, 2.0, torch.Generator().manual_seed(0))


def test_features_are_the_gradient_of_the_network():
    tangent, images = phi(), torch.rand(4, 1, 4, 4)
    found = tangent.gradient(images)
    for image, row in zip(images, found, strict=True):
        parameters = [t.clone().requires_grad_() for t in (tangent.weights, tangent.biases, tangent.outs)]
        w, b, a = parameters
        f = (a * F.softplus(w @ (2 * image.flatten() - 1) + b)).sum() / 3**0.5
        expected = torch.cat([g.flatten() for g in torch.autograd.grad(f, parameters)])
        assert torch.allclose(row, expected, atol=1e-6)
    assert found.shape == (4, tangent.size)


def test_every_image_has_norm_one_and_stands_alone():
    images = torch.cat([torch.rand(5, 1, 4, 4), torch.zeros(1, 1, 4, 4), torch.full((1, 1, 4, 4), 1e4)])
    rows = phi()(images)
    assert torch.allclose(rows.norm(dim=1), torch.ones(7), atol=1e-5)
    assert torch.allclose(rows[2], phi()(images[2:3])[0], atol=1e-6)


def test_images_can_be_learned_through_it():
    image = torch.rand(1, 1, 4, 4, requires_grad=True)
    phi()(image)[0, 5].backward()
    assert image.grad.abs().sum() > 0


def test_means_are_those_of_the_rows_and_lead_to_the_same_slope():
    images = torch.rand(3, 5, 16, dtype=torch.float64, requires_grad=True)
    rows = phi()(images.view(15, 1, 4, 4)).view(3, 5, -1).mean(1)
    found = phi().mean(images)
    assert torch.allclose(found, rows, atol=1e-12)
    weights = torch.randn(found.shape, dtype=torch.float64)
    slopes = [torch.autograd.grad((means * weights).sum(), images, retain_graph=True)[0] for means in (rows, found)]
    assert torch.allclose(*slopes, atol=1e-12)
