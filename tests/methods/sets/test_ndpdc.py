"""NDPDC: its plan, its class-wise features, and that its set gets the means of the real one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import NDPDC, Budget, DataSpec, Relation, load
from sfumato.data.labels import LabelPrior
from sfumato.methods.sets.convnets import ConvNet
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.mechanisms import Gaussian
from tests.methods.sets.test_dp_sinkhorn import striped
from tests.methods.test_contract import SPEC, learn

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {"each": 2, "steps": 4, "batch": 12, "width": 4, "depth": 1}


@pytest.mark.parametrize("relation", list(Relation))
def test_the_plan_has_one_event_a_step_for_all_classes(relation):
    plan = NDPDC(steps=300, batch=600).plan(MNIST, Budget(1.0, relation=relation))
    (event,) = plan.events()
    assert event.times == 300 and event.rate == 0.01 and plan.epsilon() <= 1
    assert event.sensitivity == pytest.approx(
        (1.0 if relation is Relation.ADD_REMOVE else 2.0) * (1 + 2**-10), rel=1e-5
    )


def query(dtype=torch.float32):
    net = ConvNet((1, 8, 8), 3, width=8, depth=2)
    net.draw(torch.Generator().manual_seed(0))
    return BoundedSum(lambda images, labels: net.features(images), Bound(1.0), (net.size,), by_class=True), net


def total(asked, images, labels):
    terms = asked.bound.project(asked.rows(images, labels))
    return torch.zeros(3, *asked.shape, dtype=torch.float64).index_add_(0, labels, terms)


@pytest.mark.parametrize("kind", ["random", "zero", "white", "nan", "huge"])
def test_no_record_moves_the_features_by_more_than_it_declares(kind):
    asked, _ = query()
    random = torch.Generator().manual_seed(1)
    images, labels = torch.rand(12, 1, 8, 8, generator=random), torch.arange(12) % 3
    stranger = {
        "random": torch.rand(1, 8, 8, generator=random),
        "zero": torch.zeros(1, 8, 8),
        "nan": torch.full((1, 8, 8), torch.nan),
        "white": torch.ones(1, 8, 8),
        "huge": torch.full((1, 8, 8), 1e30),
    }[kind]
    whole = total(asked, images, labels)
    for i in range(12):
        kept = torch.arange(12) != i
        assert torch.linalg.vector_norm(whole - total(asked, images[kept], labels[kept])) <= 1 + 1e-5
        for label in range(3):
            swapped, renamed = images.clone(), labels.clone()
            swapped[i], renamed[i] = stranger, label
            assert torch.linalg.vector_norm(whole - total(asked, swapped, renamed)) <= 2 + 1e-5


def test_in_float64_a_missing_record_leaves_the_others_exactly():
    asked, _ = query()
    images, labels = torch.rand(33, 1, 8, 8, dtype=torch.float64), torch.arange(33) % 3
    rows, fewer = (asked.bound.project(asked.rows(i, y)) for i, y in ((images, labels), (images[1:], labels[1:])))
    assert (rows[1:] - fewer).abs().max() <= asked.bound.grid


@pytest.mark.parametrize(
    "bad", [{"each": 0}, {"steps": 0}, {"clip": 0.0}, {"learning_rate": 0.0}, {"depth": 0}, {"batch": 0}]
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        NDPDC(**bad)


def test_augmentation_is_one_public_change_a_step():
    plain, changed, again = (
        learn(NDPDC(**TINY, augment=augment), None, tape=2)[0].images for augment in ("none", "siamese", "siamese")
    )
    assert torch.equal(changed, again) and not torch.equal(plain, changed)
    assert 0 <= changed.min() <= changed.max() <= 1


def test_a_class_without_records_is_left_alone():
    method = NDPDC(**TINY, labels=LabelPrior("declared", weights=(0.5, 0.5, 0.0)))
    points, *_ = learn(method, None, tape=2)
    still, *_ = learn(replace(method, steps=1), None, tape=2)
    assert torch.equal(points.images[2], still.images[2]) and not torch.equal(points.images[0], still.images[0])


@pytest.mark.parametrize(
    "descent", [{"steps": 60, "learning_rate": 0.05}, {"steps": 200, "learning_rate": 1.0, "optimiser": "sgd"}]
)
def test_its_images_show_the_stripes_when_there_is_little_noise(descent):
    method = NDPDC(each=2, batch=60, width=16, depth=1, **descent)
    plan = method.plan(SPEC, Budget(2.0))
    quiet = replace(plan.crossings["features"], mechanism=Gaussian(1e-4))
    points, *_ = learn(method, load(striped()), plan=replace(plan, crossings={"features": quiet}))
    columns = points.images.detach()[:, :, 0].mean((1, 2)).numpy()
    correlations = [np.corrcoef(columns[c], np.isin(np.arange(8), [3 * c, 3 * c + 1]))[0, 1] for c in range(3)]
    assert min(correlations) > 0.7


def test_the_linear_one_releases_a_noisy_mean_for_each_image():
    method = NDPDC(each=3, linear=True, batch=60, clip=8.0)
    plan = method.plan(SPEC, Budget(50.0))
    assert plan.crossings["features"].times == plan.facts["steps"] == 3
    quiet = replace(plan.crossings["features"], mechanism=Gaussian(1e-6))
    box = load(striped())
    plan = replace(method.plan(box.spec, Budget(50.0)), crossings={"features": replace(quiet, times=3)})
    net = linear_set(method, box, plan)
    images, labels = striped()
    for label in range(len(box.spec.classes)):
        mean = images[labels == label].mean(0) / 255
        assert np.abs(net.images[label, 0, 0].detach().numpy() - mean).max() < 0.01


def linear_set(method, box, plan):
    from sfumato import Run
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer

    return method.learn(Barrier(box, box.spec, Odometer(plan)), Run(device="cpu"))
