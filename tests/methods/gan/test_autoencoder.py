"""The autoencoder before a game: private in both of its parts, or public."""

from __future__ import annotations

import pytest
import torch

from sfumato import DPGAN, Budget, DataSpec, InputError, Run, load
from sfumato.audit import check
from sfumato.data.public import PublicImages
from sfumato.methods.gan.autoencoder import Before
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.types import Images
from tests.made_up import arrays
from tests.methods.gan.test_dpgan import MNIST, TINY
from tests.methods.test_contract import SPEC, planned
from tests.methods.variants import keeps_the_contract

PRIVATE = TINY | {"decoder": "private", "decoder_steps": 2, "codes": 3}
PUBLIC = PRIVATE | {"decoder": "public"}


def public_images():
    pixels, labels = arrays(seed=1)
    return PublicImages(Images(pixels[:, None], labels, SPEC.classes), "made up")


def test_a_private_decoder_keeps_the_contract(tmp_path):
    keeps_the_contract(DPGAN(**PRIVATE), tmp_path)


def test_a_private_decoder_passes_the_audit():
    report = check(DPGAN(**PRIVATE), level=0)
    assert report.verdict == "pass", report.failed


@pytest.mark.slow
def test_a_critic_of_public_codes_passes_the_audit():
    report = check(DPGAN(**PUBLIC), level=0)
    assert report.verdict == "pass", report.failed


def test_both_stages_are_charged():
    plan = DPGAN(steps=1000, decoder="private", decoder_steps=300).plan(MNIST, Budget(1.0))
    assert {name: c.times for name, c in plan.crossings.items()} == {"decoder": 300, "critic": 1000}
    assert 0.99 < plan.epsilon() <= 1.0 < plan.paper["epsilon"]
    free = DPGAN(steps=1000, decoder="public").plan(MNIST, Budget(1.0))
    assert free.crossings == DPGAN(steps=1000).plan(MNIST, Budget(1.0)).crossings


def test_every_weight_of_a_private_autoencoder_is_in_the_clipped_gradient():
    spec = DataSpec("scans", 60, (1, 8, 8), ("a", "b"))
    first = Before("private", spec, 3, 8, DPGAN(**PRIVATE).before(spec), Run(device="cpu"), None)
    assert first.asked(0).shape == (sum(p.numel() for p in first.net.parameters()),)
    assert first.encoder is None  # the critic sees images


def test_the_decoder_that_was_learned_ends_the_generator():
    method = DPGAN(**PUBLIC)
    run = Run(device="cpu", odometer=Odometer(planned(method)))
    net = method.learn(Barrier(load(arrays()), SPEC, run.odometer), run, public_images())
    learned = Before("public", SPEC, 3, 8, method.before(SPEC), Run(device="cpu"), public_images()).net
    for mine, theirs in zip(net.decoder.parameters(), learned.decoder.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_public_images_are_asked_for():
    method = DPGAN(**PUBLIC)
    run = Run(device="cpu", odometer=Odometer(planned(method)))
    with pytest.raises(InputError, match="--public"):
        method.learn(Barrier(load(arrays()), SPEC, run.odometer), run)


@pytest.mark.parametrize("bad", [{"width": 4, "generator": "dcgan"}, {"decoder": "public", "public_steps": 3}])
def test_settings_must_go_together(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPGAN(**PRIVATE | bad)
