"""Codes and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.validate import validate
from sfumato.networks import load_generator
from sfumato.networks.coded import CodedGenerator


def small(shape=(1, 8, 8)):
    torch.manual_seed(0)
    model = {"width": 8, "multipliers": (1, 2), "sampler_steps": 2}
    return CodedGenerator(shape, ("a", "b"), channels=2, code_width=8, model=model).eval()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 7), (1, 8, 8)])
def test_any_shape_will_do_and_it_comes_back_the_same(shape):
    net = small(shape)
    again = load_generator(net.config(), net.state_dict())
    assert net.sample(3).pixels.shape == (3, *shape)
    assert np.array_equal(net.sample(3).pixels, again.sample(3).pixels)


def test_a_code_is_one_of_its_image_alone_and_lies_in_the_unit_interval():
    net, images = small(), torch.rand(5, 1, 8, 8)
    validate(net)
    codes = net.seen(images)
    assert codes.shape == (5, 2, 2, 2) and ((codes >= 0) & (codes <= 1)).all()
    assert torch.allclose(codes[2:3], net.seen(images[2:3]), atol=1e-6)
