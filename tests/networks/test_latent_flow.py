"""A flow among codes: invertible, with the right density, in front of a frozen decoder."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato.networks import load_generator
from sfumato.networks.label_embedding import known
from sfumato.networks.latent_flow import LatentFlow


def flow():
    torch.manual_seed(0)
    net = LatentFlow((1, 8, 8), ("a", "b"), 3, 8, flow_width=8, layers=2)
    for p in net.parameters():
        if p.requires_grad:
            torch.nn.init.normal_(p, std=0.3)
    return net


def test_it_comes_back_the_same():
    net = flow()
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(8, seed=1).pixels, again.sample(8, seed=1).pixels)


def test_codes_come_back_from_the_latents_that_they_have():
    net, codes, labels = flow(), torch.randn(5, 3), torch.tensor([0, 1, 0, 1, -1])
    label = known(labels, 2, codes)
    white, _ = net._white(codes, label)
    assert torch.allclose(net._coloured(white, label), codes, atol=1e-5)


@torch.no_grad()
def test_it_has_its_density():
    net, labels = flow(), torch.tensor([1])
    code = torch.randn(1, 3)
    slope = torch.func.jacrev(lambda x: net._white(x, known(labels, 2, x))[0])(code)[0, :, 0]
    white = net._white(code, known(labels, 2, code))[0]
    exact = white.square().sum() / 2 - torch.linalg.slogdet(slope)[1]
    assert float(net.surprise(code, labels)) == pytest.approx(float(exact), rel=1e-4)
    assert math.isfinite(float(exact))


def test_only_the_flow_is_trained():
    net = flow()
    assert {name.split(".")[0] for name, p in net.named_parameters() if p.requires_grad} == {"place", "layers"}
    with pytest.raises(ValueError, match="Expected latent from 2"):
        LatentFlow((1, 8, 8), ("a", "b"), 1)
