"""A generator of codes behind a frozen decoder, and a critic of codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.engine.gradients.validate import mixes_examples, validate
from sfumato.networks import load_generator
from sfumato.networks.decoded import CodeCritic, DecodedGenerator
from sfumato.networks.vae import Encoder


def test_it_comes_back_the_same():
    net = DecodedGenerator((1, 8, 8), ("a", "b"), 4, 8, [0.25, 0.75], codes=3)
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(8, seed=1).pixels, again.sample(8, seed=1).pixels)
    assert np.bincount(again.sample(8).labels).tolist() == [2, 6]
    assert all(name.startswith("body") for name, p in net.named_parameters() if p.requires_grad)


@pytest.mark.parametrize("auxiliary", [False, True])
def test_a_critic_looks_at_codes_and_leaves_their_encoder_alone(auxiliary):
    critic = CodeCritic(Encoder((1, 8, 8), 2, 3, 8), 3, auxiliary=auxiliary)
    validate(critic)
    labels = torch.tensor([0, 1, 1])
    assert critic(torch.rand(3, 1, 8, 8), labels).shape == (3, 3 if auxiliary else 1)
    assert not mixes_examples(lambda x: critic(x, labels), torch.rand(3, 1, 8, 8))
    assert all(name.startswith("body") for name, p in critic.named_parameters() if p.requires_grad)
