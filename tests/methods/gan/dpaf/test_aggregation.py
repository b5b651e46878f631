"""Normalised features and their sums: what they are, and how far one record moves them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato import Relation
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.topk import TopK
from sfumato.methods.gan.dpaf.aggregation import aggregate, along, bound_of, normalised
from sfumato.methods.gan.dpaf.discriminator import Lower, Upper
from sfumato.methods.gan.dpaf.first_layers import FirstLayersClassifier
from sfumato.methods.gan.dpaf.layout import Layout

SHAPE, CLASSES = (1, 8, 8), 3


def lower(seed=0, mismatch=False):
    torch.manual_seed(seed)
    return Lower(SHAPE, CLASSES, Layout(1, 1, 0), 4, 6, mismatch=mismatch)


def records(kind, random, count=12):
    images = {
        "random": lambda: random.random((count, *SHAPE)),
        "zero": lambda: np.zeros((count, *SHAPE)),
        "extreme": lambda: (random.random((count, *SHAPE)) > 0.5).astype(float),
        "nan": lambda: np.full((count, *SHAPE), np.nan),
        "huge": lambda: np.full((count, *SHAPE), 1e30),
    }[kind]()
    return torch.tensor(images, dtype=torch.float32), torch.tensor(random.integers(0, CLASSES, count))


def test_a_map_has_the_norm_of_its_side_and_a_flat_one_none():
    maps = torch.randn(5, 3, 4, 4)
    assert torch.allclose(normalised(maps, eta=0.0).flatten(2).norm(dim=2), torch.full((5, 3), 4.0))
    assert (normalised(maps, eta=0.1).flatten(2).norm(dim=2) < 4).all()
    assert torch.equal(normalised(torch.full((1, 1, 4, 4), 3.0)), torch.zeros(1, 1, 4, 4))


def test_by_hand():
    x = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    assert torch.allclose(normalised(x, eta=4.0), (x - 4) / 3)  # variance 5


@pytest.mark.parametrize(("by_class", "mismatch"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("other", ["random", "zero", "extreme", "nan", "huge"])
def test_no_neighbour_moves_the_sum_by_more_than_declared(other, by_class, mismatch):
    query, random = aggregate(lower(mismatch=mismatch), by_class), np.random.default_rng(1)
    assert query.bound == bound_of(query.shape) and query.bound.norm == pytest.approx((48 if mismatch else 24) ** 0.5)
    images, labels = records("random", random)

    def total(images, labels):
        with torch.no_grad():
            terms = query.bound.project(query.rows(images, labels))
        place = labels if by_class else torch.zeros_like(labels)
        return torch.zeros(CLASSES, *query.shape, dtype=torch.float64).index_add_(0, place, terms)

    whole, strangers, furthest = total(images, labels), records(other, random), 0.0
    for i in range(12):
        kept = torch.arange(12) != i
        without = torch.linalg.vector_norm(whole - total(images[kept], labels[kept]))
        furthest = max(furthest, float(without))
        assert without <= query.bound.sensitivity(Relation.ADD_REMOVE)
        swapped, renamed = images.clone(), labels.clone()
        swapped[i], renamed[i] = strangers[0][i], strangers[1][i]
        moved = torch.linalg.vector_norm(whole - total(swapped, renamed))
        assert moved <= query.bound.sensitivity(Relation.REPLACE_ONE)
    assert furthest > 0.9 * query.bound.norm  # the bound is tight


def test_double_precision_gives_the_same_terms():
    query, (images, labels) = aggregate(lower()), records("random", np.random.default_rng(0))
    with torch.no_grad():
        one, two = query.rows(images, labels), query.rows(images.double(), labels)
    assert two.dtype == torch.float64 and torch.allclose(one.double(), two, atol=1e-4)


def test_records_are_shown_under_every_other_label_in_turn():
    net, (images, labels) = lower(mismatch=True), records("random", np.random.default_rng(0))
    seen = []
    for t in range(4):
        net.turn(t)
        with torch.no_grad():
            own, other = net.shown(images, labels).split(6, 1)
        assert torch.equal(own, net(images, labels))
        under = [k for k in range(1, CLASSES) if torch.equal(other, net(images, (labels + k) % CLASSES))]
        seen += under
    assert seen == [1, 2, 1, 2] and lower().summed == (6, 2, 2) and net.summed == (12, 2, 2)


@pytest.mark.parametrize("mismatch", [False, True])
def test_gradients_are_those_of_the_sum_and_of_conv2_alone(mismatch):
    net, (images, labels) = lower(mismatch=mismatch), records("random", np.random.default_rng(0))
    v = torch.randn(CLASSES, *net.summed)
    query = per_example(net, along(), clip=1e6)
    with torch.no_grad():
        found = query.total(images, labels, v)
    assert found.shape == (sum(p.numel() for p in net.conv2.parameters()),)
    loss = (normalised(net.shown(images, labels)) * v[labels]).sum()
    slopes = torch.autograd.grad(loss, list(net.conv2.parameters()))
    assert torch.allclose(found.float(), torch.cat([s.flatten() for s in slopes]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("other", ["random", "zero", "extreme", "nan", "huge"])
def test_no_neighbour_moves_the_gradient_by_more_than_declared(other):
    net, random = lower(), np.random.default_rng(2)
    query = per_example(net, along(), TopK(1 / 0.9**0.5, 0.9, by="count"), batch=12)
    images, labels = records("random", random)
    v, strangers = 1e3 * torch.randn(1, 6, 2, 2), records(other, random)
    with torch.no_grad():
        whole = query.total(images, labels, v)
        for i in range(4):
            kept = torch.arange(12) != i
            without = torch.linalg.vector_norm(whole - query.total(images[kept], labels[kept], v))
            assert without <= query.bound.sensitivity(Relation.ADD_REMOVE)
            swapped = images.clone()
            swapped[i] = strangers[0][i]
            moved = torch.linalg.vector_norm(whole - query.total(swapped, labels, v))
            assert moved <= query.bound.sensitivity(Relation.REPLACE_ONE)
    assert query.bound.norm == pytest.approx(1.0)


def test_labels_reach_the_features_and_the_judge():
    net, (images, _) = lower(), records("random", np.random.default_rng(0))
    one, two = (net(images, torch.full((12,), c)) for c in (0, 1))
    assert not torch.allclose(normalised(one), normalised(two))
    upper = Upper(SHAPE, CLASSES, Layout(1, 1, 0), 4, 6, 8, told=True)
    assert not torch.allclose(upper(one, torch.zeros(12)), upper(one, torch.ones(12)))
    assert FirstLayersClassifier(net.conv1, 4, CLASSES)(images).shape == (12, CLASSES)


def told(embedding, seed):
    """How far the class moves the normalised features of an image, as a part of their length."""
    torch.manual_seed(seed)
    net = Lower((1, 28, 28), 10, Layout(1, 2, 1), 16, 32, embedding=embedding)
    images = torch.rand(12, 1, 28, 28)
    one, two = (normalised(net(images, torch.full((12,), c))) for c in (0, 1))
    return float(((one - two).norm() / one.norm()).detach())


def test_patterns_of_labels_outlast_the_normalisation_and_planes_hardly_do():
    planes, patterns = (np.mean([told(way, seed) for seed in range(4)]) for way in (False, True))
    assert patterns > 1.5 * planes
    net = Lower(SHAPE, CLASSES, Layout(1, 1, 0), 4, 6, embedding=True)
    maps = torch.zeros(2, 4, 4, 4)
    assert not net._named(torch.tensor([-1, -1]), maps).any()  # nobody's label
    assert torch.equal(net._named(torch.tensor([2, 0]), maps), net.patterns[[2, 0]])
    assert "patterns" in net.state_dict() and "patterns" not in lower().state_dict()


@pytest.mark.parametrize(
    ("text", "found"), [("C2-C2-C1", (2, 2, 1)), ("C3-C1-x", (3, 1, 0)), ("C2-C2-×", (2, 2, 0)), ("x-C4-C1", (0, 4, 1))]
)
def test_layouts_are_read_and_written(text, found):
    layout = Layout.parse(text)
    assert (layout.conv1, layout.conv2, layout.conv3) == found and Layout.parse(str(layout)) == layout


@pytest.mark.parametrize("text", ["", "C2-C2", "2-2-1", "C2-x-C1", "C2-C-C1", "C9-C9-C9", "c2-c2-c1"])
def test_other_layouts_are_refused(text):
    with pytest.raises(ValueError, match="Expected layout"):
        Layout.parse(text)


@pytest.mark.parametrize(("side", "depth", "aggregated"), [(128, 4, 8), (64, 5, 4), (32, 4, 4), (28, 4, 4), (8, 2, 2)])
def test_every_size_has_a_layout_that_fits(side, depth, aggregated):
    layout = Layout.fit((side, side))
    assert layout.depth == depth and layout.features((3, side, side), 16) == (16, aggregated, aggregated)
    with pytest.raises(ValueError, match="fewer layers"):
        Layout(4, 4, 0).sides((64, 64))
