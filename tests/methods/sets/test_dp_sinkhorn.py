"""DP-Sinkhorn: its plan, its query, and that its generator goes where the data are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, DPSinkhorn, Relation, load
from sfumato.data.labels import LabelPrior
from sfumato.methods.sets.sinkhorn import Sinkhorn
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound
from sfumato.privacy.mechanisms import Gaussian
from tests.methods.test_contract import SPEC, learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {"steps": 4, "batch": 12, "fakes": 6, "blur": 1.0, "rounds": 1, "latent": 4, "width": 8}


@pytest.mark.parametrize("relation", list(Relation))
def test_the_plan_is_that_of_subsampled_gaussians_of_two_clipping_norms(relation):
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    plan = DPSinkhorn(steps=500, batch=600).plan(MNIST, Budget(1.0, relation=relation))
    event = plan.events()[0]
    assert event.bound == event.sensitivity == pytest.approx(2 * 0.5, rel=1e-5) and not event.held
    assert event.rate == 0.01 and event.times == 500 and event.sigma == pytest.approx(plan.facts["noise"])
    pair = {
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }
    one = pld.from_gaussian_mechanism(plan.facts["noise"], sampling_prob=0.01, neighboring_relation=pair[relation])
    assert one.self_compose(500).get_epsilon_for_delta(1e-5) == pytest.approx(1.0, rel=0.01)


def test_a_private_label_histogram_takes_its_part():
    plan = DPSinkhorn(steps=50, labels=LabelPrior("private", fraction=0.2)).plan(MNIST, Budget(1.0))
    alone = DPSinkhorn(steps=50).plan(MNIST, Budget(1.0))
    assert plan.epsilon() <= 1 and plan.facts["noise"] > alone.facts["noise"]


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0},
        {"fakes": 1},
        {"clip": 0.0},
        {"blur": 0.0},
        {"mixture": -1.0},
        {"generator": "fixed"},
        {"latent_distribution": "cauchy"},
        {"width": 10},
        {"ema_decay": 1.0},
        {"learning_rate": 2.0},
        {"batch": 0},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPSinkhorn(**bad)


def neighbours(kind):
    random = torch.Generator().manual_seed(3)
    images, labels = torch.rand(6, 1, 8, 8, generator=random), torch.arange(6) % 3
    other = {
        "zero": torch.zeros(1, 8, 8),
        "white": torch.ones(1, 8, 8),
        "nan": torch.full((1, 8, 8), torch.nan),
        "huge": torch.full((1, 8, 8), 1e30),
        "negative": torch.full((1, 8, 8), -1e30),
    }[kind]
    swapped = images.clone()
    swapped[0] = other
    return images, labels, swapped


@pytest.mark.parametrize("kind", ["zero", "white", "nan", "huge", "negative"])
def test_no_record_moves_the_gradient_beyond_the_ball(kind):
    images, labels, swapped = neighbours(kind)
    fakes, asked = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(4)), torch.arange(5) % 3
    query = BatchValue(Sinkhorn().gradient, BatchBound(0.5), (5, 1, 8, 8))
    whole, other, gone, alone = (
        query.value(i, y, fakes, asked)
        for i, y in ((images, labels), (swapped, labels), (images[1:], labels[1:]), (swapped[:1], labels[:1]))
    )
    for found in (other, gone, alone):
        assert torch.isfinite(found).all()
        assert torch.linalg.vector_norm(whole - found) <= BatchBound(0.5).sensitivity(Relation.ADD_REMOVE)
        assert torch.linalg.vector_norm(found) <= 0.5 * (1 + 1e-6)


@pytest.mark.parametrize(
    "switch",
    [
        {"generator": "dcgan", "hidden": 8},
        {"ema_decay": 0.0},
        {"mixture": 0.0},
        {"debias": 0.2},
        {"latent_distribution": "gaussian"},
        {"batch": 100},
    ],
    ids=str,
)
def test_every_switch_works(switch):
    net, images, run, _ = learn(DPSinkhorn(**TINY | switch), None)
    assert run.odometer.complete and images.pixels.shape == (12, 1, 8, 8)
    assert all(torch.isfinite(p).all() for p in net.state_dict().values())


def striped(n=60):
    """Three classes, each with a bright stripe in a place of its own."""
    images, labels = np.random.default_rng(0).integers(0, 30, (n, 8, 8), dtype=np.uint8), np.arange(n) % 3
    for i, label in enumerate(labels):
        images[i, :, 3 * label : 3 * label + 2] += 200
    return images, labels


def test_it_learns_three_stripes_when_there_is_little_noise():
    method = DPSinkhorn(
        steps=150, batch=40, fakes=30, clip=5.0, learning_rate=5e-3, ema_decay=0.0, latent=4, width=8, rounds=1
    )
    plan = method.plan(SPEC, Budget(2.0))
    quiet = replace(plan.crossings["gradient"], mechanism=Gaussian(1e-4))
    net, *_ = learn(method, load(striped()), plan=replace(plan, crossings={"gradient": quiet}))
    made = net.sample(60, list(np.arange(60) % 3)).pixels[:, 0].astype(float)
    columns = np.stack([made[label::3].mean((0, 1)) for label in range(3)])
    inside = np.array([columns[c, 3 * c : 3 * c + 2].mean() for c in range(3)])
    outside = np.array([np.delete(columns[c], [3 * c, 3 * c + 1]).mean() for c in range(3)])
    assert (inside > 120).all() and (outside < 80).all()
