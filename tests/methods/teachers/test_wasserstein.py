"""Wasserstein critics: the hand-made gradient against automatic differentiation, and that critics are apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from sfumato.methods.teachers.wasserstein import SLOPE, TILE, SteepCritics, _columns, _gradients, _partners, _uncolumned


def block(shape=(1, 8, 8), count=3, dtype=torch.float64, **options):
    critics = SteepCritics(shape, 3, width=6, hidden=5, teacher_batch=4, **options)
    team = critics.make(count, torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(1)
    for name, w in team.weights.items():
        team.weights[name] = (w + 0.1 * torch.randn(w.shape, generator=random)).to(dtype)
    return critics, team


def given(shape=(1, 8, 8), count=3, dtype=torch.float64):
    random = torch.Generator().manual_seed(2)
    images = torch.rand(count, 4, *shape, generator=random, dtype=dtype)
    return images, torch.randint(3, (count, 4), generator=random)


def score(weights, x, y):
    """One critic by ordinary layers."""
    for name in ("first", "second"):
        kernel = weights[name].view(2, 2, 2, 2, x.shape[1], -1)  # corner, corner, in a block, in a block
        kernel = kernel.permute(5, 4, 0, 2, 1, 3).reshape(weights[name].shape[1], x.shape[1], 4, 4)
        pad = (1, 1 + x.shape[3] % 2, 1, 1 + x.shape[2] % 2)
        x = F.conv2d(F.pad(x, pad), kernel, stride=2) + weights[f"{name}_label"][y][:, :, None, None]
        x = F.leaky_relu(x, SLOPE)
    x = F.leaky_relu(x.movedim(1, 3).flatten(1) @ weights["dense"] + weights["dense_label"][y], SLOPE)
    return (x * weights["heads"][y]).sum(1)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 10)])
def test_scores_and_directions_are_those_of_ordinary_layers(shape):
    critics, team = block(shape)
    fakes, labels = given(shape)[0][0], torch.tensor([0, 1, 2, 1])
    found, slopes = team.scores(fakes[None], labels[None]), team.directions(fakes, labels)
    for i in range(3):
        x = fakes.clone().requires_grad_()
        s = score({name: w[i] for name, w in team.weights.items()}, x, labels)
        assert torch.allclose(found[i], s)
        (slope,) = torch.autograd.grad(s.mean(), x)
        assert torch.allclose(slopes[i], slope.flatten(1))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 10)])
def test_the_gradient_is_that_of_the_loss_with_its_penalty(shape):
    critics, team = block(shape, penalty=10.0)
    images, labels = given(shape)
    partners, share = given(shape)[0].flip(1), torch.tensor([0.1, 0.5, 0.9, 0.3], dtype=torch.float64)
    weight = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0], [0.0] * 4], dtype=torch.float64)
    found = _gradients(critics, team.weights, images, partners, labels, weight, share)
    for i in range(3):
        own = {name: w[i].clone().requires_grad_() for name, w in team.weights.items()}
        between = share[:, None, None, None] * images[i] + (1 - share[:, None, None, None]) * partners[i]
        between.requires_grad_()
        (slope,) = torch.autograd.grad(score(own, between, labels[i]).sum(), between, create_graph=True)
        steep = 10.0 * (slope.flatten(1).norm(dim=1) - 1).square()
        loss = (weight[i] * (score(own, partners[i], labels[i]) - score(own, images[i], labels[i]) + steep)).mean()
        for name, g in zip(own, torch.autograd.grad(loss, list(own.values()), allow_unused=True), strict=True):
            assert torch.allclose(found[name][i], torch.zeros_like(own[name]) if g is None else g, atol=1e-10), name


def test_columns_and_their_transpose():
    x, y = torch.randn(2, 3, 7, 10, 2, dtype=torch.float64), torch.randn(2, 3, 4, 5, 32, dtype=torch.float64)
    assert _columns(x).shape == y.shape
    assert torch.allclose((_columns(x) * y).sum(), (x * _uncolumned(y, (7, 10))).sum())


def test_a_record_meets_a_fake_of_its_label_or_none():
    labels, fakes = torch.tensor([[0, 1, 2, 2]]), torch.tensor([2, 1, 1, 2, 2])
    at, weight, share = _partners(labels, fakes, 7)
    assert weight.tolist() == [[0, 1, 1, 1]] and (fakes[at[0, 1:]] == labels[0, 1:]).all()
    assert share.shape == (4,) and share.min() >= 0 and share.max() <= 1


def test_a_critic_depends_on_its_own_records():
    (_, one), (_, two) = block(dtype=torch.float32), block(dtype=torch.float32)
    images, labels = given(dtype=torch.float32)
    fakes, fake_labels = torch.rand(5, 1, 8, 8), torch.arange(5) % 3
    other = images.clone()
    other[1] = float("nan")
    for _ in range(2):
        one.update(images, labels, fakes, fake_labels)
        two.update(other, labels, fakes, fake_labels)
    for name in one.weights:
        assert torch.equal(one.weights[name][0], two.weights[name][0])
        assert torch.equal(one.weights[name][2], two.weights[name][2])
    assert two.weights["first"][1].isnan().any()


def test_tiles_and_parts_of_a_block_give_the_same(monkeypatch):
    (_, one), (_, two) = block(dtype=torch.float32), block(dtype=torch.float32)
    images, labels = given(dtype=torch.float32)
    fakes, fake_labels = torch.rand(5, 1, 8, 8), torch.arange(5) % 3
    one.update(images, labels, fakes, fake_labels)
    monkeypatch.setitem(TILE, "cpu", 1)
    two.update(images, labels, fakes, fake_labels)
    assert torch.allclose(one.scores(images, labels), two.scores(images, labels), atol=1e-4)
    assert all(torch.allclose(one.weights[n], two.weights[n], atol=1e-5) for n in one.weights)
    few = one.some(torch.tensor([2, 0])).directions(fakes, fake_labels)
    assert torch.allclose(few, one.directions(fakes, fake_labels)[[2, 0]], atol=1e-6)


def test_a_state_comes_back():
    (critics, one), (_, two) = block(dtype=torch.float32), block(dtype=torch.float32)
    images, labels = given(dtype=torch.float32)
    fakes, fake_labels = torch.rand(5, 1, 8, 8), torch.arange(5) % 3
    one.update(images, labels, fakes, fake_labels)
    two.load_state_dict({name: t.clone() for name, t in one.state_dict().items()})
    for team in (one, two):
        team.update(images, labels, fakes, fake_labels)
    assert all(torch.equal(one.weights[n], two.weights[n]) for n in one.weights)
    with pytest.raises(ValueError, match="Expected the state of 2 critics"):
        critics.make(2, torch.Generator()).load_state_dict(one.state_dict())


def test_the_slope_comes_near_to_one_where_it_is_asked_for():
    critics = SteepCritics((1, 8, 8), 2, width=8, hidden=16, teacher_batch=16, learning_rate=3e-3)
    team, random = critics.make(4, torch.Generator().manual_seed(0)), torch.Generator().manual_seed(3)
    labels, fake_labels = torch.arange(16).expand(4, -1) % 2, torch.arange(32) % 2
    for _ in range(150):
        fakes = 0.5 + 0.1 * torch.randn(32, 1, 8, 8, generator=random)
        images = 0.1 * torch.randn(4, 16, 1, 8, 8, generator=random)
        images[labels == 1] += 1.0
        team.update(images, labels, fakes, fake_labels)
    found = 32 * team.directions(fakes, fake_labels)
    assert found.norm(dim=2).mean() == pytest.approx(1.0, abs=0.25)
    assert found[:, 1::2].mean() > 0.05 and found[:, ::2].mean() < -0.05  # up for the bright label, down for the dark
    assert math.isfinite(found.sum())


@pytest.mark.parametrize("bad", [{"width": 0}, {"penalty": -1.0}, {"learning_rate": 0.0}, {"precision": "bfloat16"}])
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        SteepCritics((1, 8, 8), 3, **bad)
