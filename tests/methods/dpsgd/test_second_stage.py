"""The second stage begins behind the encoder that the first left, and leaves it alone."""

from __future__ import annotations

import pytest
import torch

from sfumato import DPVAE, DataSpec, Run
from sfumato.engine.dpsgd import in_stages
from sfumato.engine.generator_dpsgd import GeneratorDPSGD
from sfumato.networks.vae import VAE, VAEGenerator

SPEC = DataSpec("scans", 60, (1, 8, 8), ("a", "b"))


@pytest.mark.parametrize("second", ["decoder", "flow"])
def test_what_is_frozen_is_the_first_stage_s(second):
    method = DPVAE(steps=2, second=second, second_steps=3, latent=3, width=8, couplings=2, batch=12)
    run = Run(device="cpu")
    net = VAE(VAEGenerator(SPEC.shape, SPEC.classes, 3, 8))
    first = GeneratorDPSGD(net.decoder, method.loss, run, SPEC, method.dpsgd(SPEC), within=net, **method.training())
    trainings = {"gradient": first} | method.second_stage(first, None, SPEC, run)
    random = torch.Generator().manual_seed(0)
    taken = []
    for name, sgd in in_stages(trainings):
        taken.append(name)
        sgd.step(torch.randn(sgd.query.shape, generator=random))
        sgd.average()
    assert taken == ["gradient"] * 2 + [second] * 3
    made = trainings[second]
    for mine, theirs in zip(net.encoder.parameters(), made.net.encoder.parameters(), strict=True):
        assert torch.equal(mine, theirs) and not theirs.requires_grad
    same = [
        torch.equal(a, b) for a, b in zip(first.finished().parameters(), decoder_of(made).parameters(), strict=True)
    ]
    assert all(same) if second == "flow" else not any(same)


def decoder_of(training):
    made = training.finished()
    return getattr(made, "decoder", made)
