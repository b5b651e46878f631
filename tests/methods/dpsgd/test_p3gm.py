"""P3GM: one ledger for mean, scatter, mixture and gradients, each with its true sensitivity."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato import P3GM, Budget, DataSpec, Relation
from sfumato.accounting.gaussian import mu_of
from sfumato.engine.gradients.per_example import per_example
from sfumato.networks.vae import VAEGenerator, Whitened
from sfumato.record_rng import drawing, normal, record_keys
from tests.explicit import learned, told_apart

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


@pytest.mark.parametrize("relation", list(Relation))
def test_parts_have_their_shares_of_one_budget(relation):
    plan = P3GM(rounds=4).plan(MNIST, Budget(1.0, relation=relation))
    events = {name: c.event(relation) for name, c in plan.crossings.items()}
    whole = mu_of(1.0, 1e-5) ** 2
    assert events["mean"].mu ** 2 / whole == pytest.approx(0.02, rel=0.01)
    assert events["scatter"].mu ** 2 / whole == pytest.approx(0.2, rel=0.01)
    assert sum(events[f"mixture-{i}"].mu ** 2 for i in range(1, 5)) / whole == pytest.approx(0.08, rel=0.01)
    assert 0.999 < plan.epsilon() <= 1.0


def test_sensitivities_are_those_of_the_statistics():
    plan = P3GM().plan(MNIST, Budget(1.0))
    reach = 0.35 * 28
    events = {name: c.event(Relation.ADD_REMOVE) for name, c in plan.crossings.items()}
    assert events["mean"].sensitivity == pytest.approx(reach, rel=1e-5)
    assert events["scatter"].sensitivity == pytest.approx(reach**2, rel=3e-3)
    assert events["mixture-1"].sensitivity == pytest.approx(math.sqrt(3), rel=1e-5)
    assert events["gradient"].rate == 1024 / 60_000


def network():
    torch.manual_seed(0)
    decoder = VAEGenerator((1, 8, 8), ("a", "b"), latent=3, width=8, components=2)
    decoder.means.normal_()
    return Whitened(decoder, torch.full((64,), 0.5), torch.randn(64, 3) / 8)


def test_the_loss_is_the_lower_bound_with_the_mixture_as_prior():
    net, method = network(), P3GM(latent=3)
    images, labels = torch.rand(4, 1, 8, 8), torch.arange(4) % 2
    keys, copy = drawing(lambda name, step: torch.Generator().manual_seed(0))(0)(4)
    code, log_variance = net(images)
    z = code + (log_variance / 2).exp() * normal(record_keys(images, keys), (3,))
    log_q = torch.distributions.Normal(code, (log_variance / 2).exp()).log_prob(z).sum(1)
    image = torch.distributions.Bernoulli(logits=net.decoder.logits(z, labels), validate_args=False)
    exact = -image.log_prob(images).sum((1, 2, 3)) + log_q - net.decoder.log_prior(z, labels)
    assert torch.allclose(method.loss(net, images, labels, keys, copy), exact, rtol=1e-3)


def test_decoder_and_variance_are_clipped_together():
    net, draw = network(), drawing(lambda name, step: torch.Generator().manual_seed(0))(0)
    query = per_example(net, P3GM(latent=3).loss, 1.0, batch=4, draw=draw)
    images, labels = torch.rand(4, 1, 8, 8), torch.arange(4) % 2
    rows = query.rows(images, labels)
    assert list(query._chosen.values()) == ["ghost"] and (rows.norm(dim=1) <= 1 + 1e-5).all()
    whole = query.total(images, labels)
    assert (whole - query.total(images[1:], labels[1:])).norm() <= query.bound.sensitivity(Relation.ADD_REMOVE)


@pytest.mark.parametrize("pca_steps", [0, 20])
def test_it_learns(pca_steps):
    settings = {"steps": 40, "batch": 60, "latent": 3, "width": 8, "learning_rate": 1e-2, "components": 2, "rounds": 3}
    assert told_apart(learned(P3GM(pca_steps=pca_steps, **settings))) > 0.9


@pytest.mark.parametrize(
    "bad", [{"components": 0}, {"to_mean": 0.0}, {"to_scatter": 0.9}, {"reach": 2.0}, {"width": 9}]
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        P3GM(**bad)
