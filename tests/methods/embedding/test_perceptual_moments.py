"""Perceptual moments: two blocks of norm 1."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from sfumato.methods.embedding.perceptual_moments import PerceptualMoments
from sfumato.networks.pretrained import perceptual


class Doubling(nn.Module):
    """Features of no network: twice the pixels."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.by * x.flatten(1)


def test_the_two_blocks_are_first_and_second_moments():
    psi, images = PerceptualMoments(Doubling(), 1, (3, 2, 2)), torch.rand(4, 3, 2, 2)
    found, e = psi(images), images.flatten(1)
    assert found.shape == (4, psi.size) == (4, 24)
    assert torch.allclose(found[:, :12], e / e.norm(dim=1, keepdim=True), atol=1e-6)
    assert torch.allclose(found[:, 12:], e**2 / (e**2).norm(dim=1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_no_image_is_longer_than_the_root_of_two(channels):
    psi = PerceptualMoments(perceptual.network("random"), 2, (channels, 8, 8))
    images = torch.rand(6, channels, 8, 8)
    images[1], images[2], images[3] = 0, 1e4, images[3] > 0.5
    rows = psi(images)
    assert (rows.norm(dim=1) <= math.sqrt(2) * (1 + 1e-6)).all()
    assert torch.allclose(rows[4], psi(images[4:5])[0], atol=1e-6)
    assert PerceptualMoments(Doubling(), 1, (3, 2, 2))(torch.zeros(1, 3, 2, 2)).norm() == 0  # no features, no term
    assert psi(images.double()).dtype == torch.float64 and psi(images).dtype == torch.float32
