"""A classifier's plan and its training through the barrier."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from sfumato import Budget, DataSpec, Relation, Run, load
from sfumato.audit import check
from sfumato.classify import Classifier
from sfumato.data import load_public
from sfumato.data.labels import LabelPrior
from sfumato.errors import InputError, Interrupted
from sfumato.flow.train_classifier import accuracy, train_classifier
from sfumato.methods import Method, names
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.run.progress import Silent
from tests.made_up import box

SPEC = DataSpec("set", 60_000, (1, 28, 28), tuple("0123456789"))
LINEAR = {"network": "linear", "centre": 0.0, "spread": 1.0}


def learned(classifier, data, plan, **run):
    made = Run(**({"device": "cpu", "odometer": Silenced(plan)} | run))
    return classifier.learn(Barrier(data, plan.data, made.odometer), made)


@pytest.mark.parametrize("relation, times", [(Relation.ADD_REMOVE, 1), (Relation.REPLACE_ONE, 2)])
@pytest.mark.parametrize("by", ["norm", "dimension"])
def test_the_sensitivity_is_the_square_root_of_k_times_the_norm(relation, times, by):
    plan = Classifier(k=0.6, clip=10.0, batch=512, by=by).plan_at(SPEC, Budget(1.0, relation=relation), 2.0, 5)
    event = plan.events()[0]
    assert event.sensitivity == pytest.approx(times * math.sqrt(0.6) * 10, rel=3e-3)
    assert event.sigma == pytest.approx(2.0 * math.sqrt(0.6) * 10)
    assert event.rate == 512 / 60_000 and event.times == 5


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_the_noise_is_the_least_that_the_steps_allow(epsilon):
    plan = Classifier().plan(SPEC, Budget(epsilon))
    assert 0.999 * epsilon < plan.epsilon() <= epsilon
    assert plan.facts["steps"] == Classifier().steps == plan.events()[0].times


def test_a_given_noise_allows_so_many_steps_and_no_more():
    classifier, budget = Classifier(network="cnn", sigma=1.6, batch=512, clip=10.0), Budget(1.0)
    plan = classifier.plan(SPEC, budget)
    steps = plan.facts["steps"]
    assert plan.epsilon() <= 1.0 < classifier.plan_at(SPEC, budget, 1.6, steps + 1).epsilon()
    assert 1500 < steps < 2500
    with pytest.raises(ValueError, match="larger sigma"):
        Classifier(sigma=0.3).plan(SPEC, Budget(0.1))


def test_the_papers_figures_stand_beside_it_with_their_label():
    plan = Classifier(network="cnn", sigma=3.6, batch=512, clip=12.0, k=0.6).plan(SPEC, Budget(0.2))
    assert 0.2 < plan.paper["epsilon"] <= plan.paper["dpdl"]
    assert plan.paper["note"].startswith("paper accounting, not a guarantee")


def test_epochs_stand_for_steps():
    assert Classifier(epochs=2.0, batch=600).wanted(SPEC) == 200
    assert Classifier(epochs=3.0, batch=10**6).wanted(SPEC) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": "forest"},
        {"by": "luck"},
        {"k": 0.0},
        {"k": 1.5},
        {"steps": 0},
        {"clip": 0.0},
        {"momentum": 1.0},
        {"ema_decay": -0.1},
        {"groups": 5},
        {"learning_rate": math.nan},
        {"features": "vgg"},
        {"sigma": -1.0},
        {"sigma": 0.01},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"Expected {next(iter(wrong))}"):
        Classifier(**wrong)


def test_it_is_a_method_that_chooses_no_labels():
    plan = Classifier().plan(SPEC, Budget(1.0))
    assert isinstance(Classifier(), Method) and Classifier.name not in names()
    assert plan.labels == {"kind": "none", "weights": None} and "labels" not in plan.settings
    with pytest.raises(ValueError, match="Expected no labels"):
        Classifier(labels=LabelPrior("private", fraction=0.1))


def test_images_too_small_for_a_network_are_refused():
    with pytest.raises(InputError, match="at least 14x14"):
        Classifier(network="cnn").build(DataSpec("s", 10, (1, 13, 28), ("a",)))


def test_a_step_is_the_papers_sum():
    """NormTopK and the clip to sqrt(k) C, by hand."""
    images = np.random.default_rng(1).integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)
    data = load((images, np.arange(20) % 3))
    classifier = Classifier(**LINEAR, k=0.6, clip=0.5, learning_rate=1.0, momentum=0.0, steps=1, batch=20)
    net = learned(classifier, data, classifier.plan_at(data.spec, Budget(1.0), 1e-9, 1))
    x, total = torch.from_numpy(images).double().flatten(1) / 255, torch.zeros(51, dtype=torch.float64)
    for row, label in zip(x, torch.arange(20) % 3, strict=True):
        weight, bias = torch.zeros(3, 16, dtype=torch.float64, requires_grad=True), torch.zeros(3).double()
        bias.requires_grad_()
        loss = cross_entropy((weight @ row + bias)[None], label[None])
        g = torch.cat([p.flatten() for p in torch.autograd.grad(loss, [weight, bias])])
        order = g.abs().argsort(descending=True)
        kept, energy = torch.zeros_like(g), 0.0
        for at in order:
            energy += float(g[at]) ** 2
            if energy > 0.6 * float(g @ g):
                kept[(g.abs() - g[at].abs()).abs() < 1e-12] = 0  # its equals go with it
                break
            kept[at] = g[at]
        total += kept * min(1.0, math.sqrt(0.6) * 0.5 / max(float(kept.norm()), 1e-12))
    found = -torch.cat([net.head.weight.flatten(), net.head.bias]).detach().double()
    assert torch.allclose(found, total / 20, atol=1e-6)


@pytest.mark.parametrize(
    "settings", [{"network": "cnn", "learning_rate": 0.5, "clip": 1.0}, {"learning_rate": 4.0}, LINEAR]
)
def test_with_little_noise_it_learns(settings):
    random = np.random.default_rng(2)
    labels = np.arange(120) % 2
    images = random.integers(0, 60, (120, 1, 16, 16), dtype=np.uint8)
    images[labels == 1, :, :8] += 150
    data = load((images, labels))
    classifier = Classifier(**{"batch": 60, "steps": 20, "ema_decay": 0.5} | settings)
    net = learned(classifier, data, classifier.plan_at(data.spec, Budget(1.0), 0.01, 20))
    guesses = net(torch.from_numpy(images).float() / 255).argmax(1).numpy()
    assert (guesses == labels).mean() > 0.95


def test_without_data_it_does_the_same_and_learns_nothing():
    data, classifier = box(size=16), Classifier(network="cnn", batch=20, steps=3)
    plan = classifier.plan(data.spec, Budget(3.0))
    seen, blind = (learned(classifier, d, plan) for d in (data, None))
    assert [p.shape for p in seen.parameters()] == [p.shape for p in blind.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(seen.parameters(), blind.parameters(), strict=True))


def test_people_may_be_the_unit():
    data = box(size=8, person=[i // 3 for i in range(60)])
    classifier = Classifier(**LINEAR, batch=20, clip=0.05, learning_rate=1.0, momentum=0.0, steps=1)
    net = learned(classifier, data, classifier.plan_at(data.spec, Budget(1.0, unit="person"), 1e-9, 1))
    assert float(torch.cat([net.head.weight.flatten(), net.head.bias]).detach().norm()) <= 0.05 * (1 + 1e-3)


@pytest.mark.parametrize("k", [1.0, 0.6])
def test_it_passes_its_audit(k):
    report = check(Classifier(network="linear", k=k))
    assert report.verdict == "pass", [row for row in report.rows if not row.ok]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_scattering_reaches_85_per_cent_of_fashion_mnist_at_epsilon_1():
    made = train_classifier(Classifier(batch=2048), "fashion-mnist", Budget(1.0), Run(device="cpu"))
    assert made.statement["guarantee"]["epsilon"] <= 1.0
    assert accuracy(made, load_public("fashion-mnist", "a public set", split="test")) > 0.85


def test_a_resumed_run_goes_on_where_it_stopped(tmp_path):
    class Stop(Silent):
        def advance(self, done, note=""):
            if done == 3:
                self.run._stop.set()

    data = box(size=16)
    classifier = Classifier(network="cnn", batch=60, steps=6, ema_decay=0.9, clip=1.0, learning_rate=0.1)
    plan = classifier.plan_at(data.spec, Budget(1.0), 1e-9, 6)
    whole, progress = learned(classifier, data, plan), Stop()
    progress.run = run = Run(device="cpu", folder=tmp_path, odometer=Silenced(plan), progress=progress)
    with pytest.raises(Interrupted):
        classifier.learn(Barrier(data, data.spec, run.odometer), run)
    again = learned(classifier, data, plan, folder=tmp_path)
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


class Silenced(Odometer):
    """Next to no noise has no epsilon to be shown."""

    def epsilon(self):
        return 0.0
