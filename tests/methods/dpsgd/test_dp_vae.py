"""DP-VAE: encoder and decoder in one gradient, its likelihoods, and its mixture."""

from __future__ import annotations

import pytest
import torch

from sfumato import DPVAE, Budget, DataSpec, Relation
from sfumato.audit import check
from sfumato.engine.gradients.per_example import per_example
from sfumato.networks.vae import VAE, VAEGenerator
from sfumato.record_rng import drawing, normal, record_keys
from tests.explicit import learned, told_apart
from tests.methods.variants import keeps_the_contract

TINY = {"steps": 5, "batch": 12, "latent": 3, "width": 8}
VARIANTS = {
    "a network and a mixture a class": {"models": "class", "components": 2, "rounds": 2},
    "a network a cluster": {"models": "cluster", "clusters": 2, "rounds": 2},
    "a decoder again": {"steps": 2, "second": "decoder", "second_steps": 3},
    "a flow of codes": {"steps": 2, "second": "flow", "second_steps": 3, "couplings": 2},
}
MIXED = {"components": 2, "rounds": 3, "beta": 0.1}
TWICE = {"second": "decoder", "second_steps": 50}
FLOW = {"second": "flow", "second_steps": 50, "beta": 0.1}
MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


def network():
    torch.manual_seed(0)
    return VAE(VAEGenerator((1, 8, 8), ("a", "b", "c"), latent=3, width=8))


def draw(noise_multiplicity=1):
    return drawing(lambda name, step: torch.Generator().manual_seed(step), noise_multiplicity)(0)


def test_the_plan_has_one_crossing_for_encoder_and_decoder():
    plan = DPVAE().plan(MNIST, Budget(1.0))
    assert list(plan.crossings) == ["gradient"] and 0.999 < plan.epsilon() <= 1.0 < plan.paper["epsilon"]


def test_a_mixture_has_its_share_of_the_budget():
    plan = DPVAE(components=2, rounds=4, share=0.2).plan(MNIST, Budget(1.0))
    rounds = [plan.crossings[f"mixture-{i}"].event(Relation.ADD_REMOVE) for i in range(1, 5)]
    assert sum(e.mu**2 for e in rounds) / 0.2 == pytest.approx(0.2684**2, rel=0.05)  # mu of (1, 1e-5)
    assert plan.epsilon() <= 1.0 and len(plan.crossings) == 5


def test_the_loss_is_the_lower_bound():
    net, method = network(), DPVAE(latent=3, beta=0.5)
    images, labels = torch.rand(5, 1, 8, 8), torch.arange(5) % 3
    keys, copy = draw()(5)
    mean, spread = net.encoder(images, labels)
    noise = normal(record_keys(images, keys), (3,))
    q = torch.distributions.Normal(mean, (spread / 2).exp())
    kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros(3), 1.0)).sum(1)
    image = torch.sigmoid(net.decoder.logits(mean + (spread / 2).exp() * noise, labels))
    likelihood = (images * image.log() + (1 - images) * (1 - image).log()).sum((1, 2, 3))
    exact = -likelihood + 0.5 * kl
    assert torch.allclose(method.loss(net, images, labels, keys, copy), exact, rtol=1e-4)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_every_weight_is_in_the_clipped_gradient(likelihood):
    net = network()
    query = per_example(
        net, DPVAE(latent=3, likelihood=likelihood).loss, 0.5, batch=6, noise_multiplicity=2, draw=draw(2)
    )
    images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 3
    rows = query.rows(images, labels)
    assert list(query._chosen.values()) == ["ghost"]
    assert rows.shape[1] == sum(p.numel() for p in net.parameters())
    assert (rows.norm(dim=1) <= 0.5 * (1 + 1e-5)).all() and (rows.norm(dim=1) > 0.49).all()
    whole, less = query.total(images, labels), query.total(images[1:], labels[1:])
    assert (whole - less).norm() <= query.bound.sensitivity(Relation.ADD_REMOVE)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_variants_keep_the_contract(changes, tmp_path):
    keeps_the_contract(DPVAE(**TINY | changes), tmp_path)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_variants_pass_the_audit(changes):
    report = check(DPVAE(**TINY | changes), level=0)
    assert report.verdict == "pass", report.failed


def test_a_network_a_class_costs_what_one_network_costs():
    one, several = (DPVAE(models=models).plan(MNIST, Budget(1.0)) for models in ("one", "class"))
    assert one.crossings == several.crossings
    assert one.deviations[1:] == several.deviations


def test_clusters_have_their_share_of_the_budget():
    plan = DPVAE(models="cluster", rounds=3).plan(MNIST, Budget(1.0))
    assert list(plan.crossings) == ["gradient", "clusters-1", "clusters-2", "clusters-3"] and plan.epsilon() <= 1.0
    with pytest.raises(ValueError, match="Expected components=0 for models=cluster"):
        DPVAE(models="cluster", components=2)


@pytest.mark.parametrize("second", ["decoder", "flow"])
def test_both_stages_are_charged(second):
    plan = DPVAE(second=second, steps=300, second_steps=200).plan(MNIST, Budget(1.0))
    assert {name: c.times for name, c in plan.crossings.items()} == {"gradient": 300, second: 200}
    assert plan.crossings["gradient"].mechanism == plan.crossings[second].mechanism
    assert 0.999 < plan.epsilon() <= 1.0 < plan.paper["epsilon"]
    for bad in ({"models": "class"}, {"second": "flow", "components": 2}):
        with pytest.raises(ValueError, match="Expected"):
            DPVAE(**{"second": second} | bad)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"components": 2, "rounds": 3, "beta": 0.1},
        {"models": "class"},
        {"models": "cluster", "clusters": 2},
        TWICE,
        FLOW,
    ],
)
def test_it_learns(changes):
    assert told_apart(learned(DPVAE(steps=50, batch=60, latent=3, width=8, learning_rate=1e-2, **changes))) > 0.9


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"width": 12}, {"likelihood": "poisson"}, {"share": 1.0}, {"noise": 0.0}]
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPVAE(**bad)
