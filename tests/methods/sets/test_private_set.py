"""Private-Set: how many gradients it asks for, what they are, and that its set teaches a classifier."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sfumato import Budget, DataSpec, PrivateSet, Relation, load
from sfumato.data.labels import LabelPrior
from sfumato.engine.gradients.per_example import per_example
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.convnets import ConvNet
from sfumato.methods.sets.private_set import _loss
from sfumato.privacy.mechanisms import Gaussian
from tests.methods.sets.test_dp_sinkhorn import striped
from tests.methods.test_contract import SPEC, learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {"each": 2, "rounds": 2, "outer": 3, "batches": 2, "inner": 2, "batch": 12, "width": 4, "depth": 1}


@pytest.mark.parametrize("relation", list(Relation))
def test_the_plan_counts_rounds_times_places_times_batches(relation):
    plan = PrivateSet(rounds=7, outer=3, batches=5, batch=600).plan(MNIST, Budget(1.0, relation=relation))
    event = plan.events()[0]
    assert event.times == plan.facts["steps"] == 105 and event.rate == 0.01
    assert event.sensitivity == pytest.approx(0.1 * (1 if relation is Relation.ADD_REMOVE else 2), rel=0.01)
    assert plan.epsilon() <= 1 and plan.facts["images"] == 100


def test_it_makes_exactly_as_many_as_planned():
    _, _, run, barrier = learn(PrivateSet(**TINY), load(striped()), tape=1)
    assert run.odometer.used == {"gradient": 12} and run.odometer.complete
    assert len(barrier.shapes) == 12


def test_the_query_is_the_sum_of_clipped_gradients_by_hand():
    net = ConvNet((1, 8, 8), 3, width=4, depth=1)
    net.draw(torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(1)
    images, labels = torch.rand(5, 1, 8, 8, generator=random), torch.arange(5) % 3
    total = 0
    for image, label in zip(images, labels, strict=True):
        slopes = torch.autograd.grad(F.cross_entropy(net(image[None]), label[None]), list(net.parameters()))
        flat = torch.cat([s.flatten() for s in slopes]).double()
        total = total + flat * min(1, 0.1 / float(flat.norm()))
    found = per_example(net, _loss, 0.1, batch=5).total(images, labels)
    assert torch.allclose(found, total, atol=1e-6)


def test_the_network_sees_the_synthetic_set_alone(monkeypatch):
    # Its weights at each release: the same for any data, under one tape.
    seen = []
    gap = synthetic_set.gradient_gap

    def watched(mine, theirs):
        seen.append(torch.cat([g.detach().flatten() for g in mine]))
        return gap(mine, theirs)

    monkeypatch.setattr(synthetic_set, "gradient_gap", watched)
    images, labels = striped()
    for data in ((images, labels), (255 - images, labels)):
        learn(PrivateSet(**TINY), load(data), tape=5)
    assert len(seen) == 24 and all(torch.equal(a, b) for a, b in zip(seen[:12], seen[12:], strict=True))
    assert not torch.equal(seen[0], seen[6])  # another network in the second round


@pytest.mark.parametrize(
    "bad",
    [{"each": 0}, {"rounds": 0}, {"batch": 0}, {"clip": 0.0}, {"learning_rate": 0.0}, {"depth": 9}, {"inner": -1}],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        PrivateSet(**bad)


def test_a_private_label_histogram_takes_its_part():
    labels = LabelPrior("private", fraction=0.3)
    plan, alone = (
        PrivateSet(rounds=2, labels=prior).plan(MNIST, Budget(1.0)) for prior in (labels, LabelPrior("uniform"))
    )
    assert plan.epsilon() <= 1 and plan.facts["noise"] > alone.facts["noise"]


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_its_images_show_the_stripes_when_there_is_little_noise(optimiser):
    size = {"each": 1, "rounds": 12, "outer": 5, "batches": 2, "inner": 5, "batch": 60, "width": 8, "depth": 1}
    method = PrivateSet(**size, learning_rate=0.1, optimiser=optimiser)
    plan = method.plan(SPEC, Budget(2.0))
    assert plan.warnings and "without amplification" in plan.warnings[0] and "distinct images" in plan.warnings[-1]
    quiet = replace(plan.crossings["gradient"], mechanism=Gaussian(1e-4))
    points, *_ = learn(method, load(striped()), plan=replace(plan, crossings={"gradient": quiet}))
    columns = points.images.detach()[:, 0, 0].mean(1).numpy()
    correlations = [np.corrcoef(columns[c], np.isin(np.arange(8), [3 * c, 3 * c + 1]))[0, 1] for c in range(3)]
    assert min(correlations) > 0.5
