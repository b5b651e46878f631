"""The Sinkhorn divergence against a linear program, a closed form, automatic differentiation and geomloss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from sfumato.methods.sets.sinkhorn import Sinkhorn


def sets(n=7, k=5, side=3, seed=0, dtype=torch.float64):
    random = torch.Generator().manual_seed(seed)
    x, y = (torch.rand(m, 1, side, side, generator=random, dtype=dtype) for m in (n, k))
    a, b = (torch.randint(0, 2, (m,), generator=random) for m in (n, k))
    return x, a, y, b


def by_linear_program(cost):
    n, k = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(k)), np.kron(np.ones(n), np.eye(k))
    even = np.concatenate([np.full(n, 1 / n), np.full(k, 1 / k)])
    return linprog(cost.numpy().ravel(), A_eq=np.vstack([rows, columns]), b_eq=even, method="highs").fun


@pytest.mark.parametrize(("mixture", "label"), [(0.0, 0.0), (1.0, 0.0), (1.0, 3.0), (3.0, 15.0)])
def test_with_little_blur_it_is_optimal_transport(mixture, label):
    given = sets()
    sharp = Sinkhorn(blur=0.02, mixture=mixture, label=label, rounds=200)
    cost = sharp.cost(*given)
    least = by_linear_program(cost)
    assert least - 1e-6 <= float(sharp.transport(cost)) <= least + 0.02 * np.log(5)  # the entropy of a plan, at most


def test_the_cost_is_that_of_images_joined_with_labels():
    x, a, y, b = sets()
    hot = [torch.nn.functional.one_hot(t, 2).double() * 15 for t in (a, b)]
    x, y = (torch.cat([t.flatten(1) * 2 - 1, h], 1) for t, h in zip((x, y), hot, strict=True))
    gap = x[:, None] - y[None]
    assert torch.allclose(Sinkhorn(mixture=3.0).cost(*sets()), gap.square().sum(2) + 3 * gap.abs().sum(2))


def test_blurred_transport_to_a_single_point_has_a_closed_form():
    x, a, y, b = sets(k=1)
    blurred = Sinkhorn(blur=0.7)
    assert torch.allclose(blurred.transport(blurred.cost(x, a, y, b)), blurred.cost(x, a, y, b).mean())


def test_the_potentials_solve_their_equations():
    sinkhorn = Sinkhorn(blur=2.0, label=1.0, rounds=100)
    cost = sinkhorn.cost(*sets())
    f, g = sinkhorn.potentials(cost)
    plan = torch.exp((f[:, None] + g - cost) / 2.0) / cost.numel()
    assert torch.allclose(plan.sum(1), torch.full((7,), 1 / 7, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(plan.sum(0), torch.full((5,), 1 / 5, dtype=torch.float64), atol=1e-9)


def test_it_is_zero_between_equal_sets_and_positive_between_others():
    x, a, y, b = sets(n=6, k=6)
    sinkhorn = Sinkhorn(blur=1.0)
    assert abs(float(sinkhorn.divergence(x, a, x, a))) < 1e-9
    assert float(sinkhorn.divergence(x, a, y, b)) > 0.1
    assert sinkhorn.gradient(x, a, x, a).abs().max() < 1e-6


@pytest.mark.parametrize("debias", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("mixture", [0.0, 1.0])
def test_the_gradient_is_that_of_the_divergence(debias, mixture):
    x, a, y, b = sets()
    y.requires_grad_()
    sinkhorn = Sinkhorn(blur=2.0, mixture=mixture, label=2.0, debias=debias, rounds=200)
    (expected,) = torch.autograd.grad(sinkhorn.divergence(x, a, y, b), y)
    assert torch.allclose(sinkhorn.gradient(x, a, y.detach(), b), expected, atol=1e-8)


def test_pairs_that_do_not_fit_at_once_give_the_same(monkeypatch):
    given = sets(n=9, k=8)
    whole = Sinkhorn().gradient(*given)
    monkeypatch.setattr("sfumato.methods.sets.sinkhorn.ROOM", 200)
    assert torch.allclose(Sinkhorn().gradient(*given), whole)


def test_labels_keep_classes_apart():
    # Two bright and two dark images; each fake is pulled towards those of its own class, far as they may be.
    x, a = torch.tensor([1.0, 1.0, 0.0, 0.0]).view(4, 1, 1, 1), torch.tensor([0, 0, 1, 1])
    y, b = torch.tensor([0.1, 0.9]).view(2, 1, 1, 1), torch.tensor([0, 1])
    slope = Sinkhorn(debias=0).gradient(x, a, y, b).flatten()
    assert slope[0] < 0 < slope[1]
    blind = Sinkhorn(debias=0, label=0.0).gradient(x, a, y, b).flatten()
    assert blind[0] > 0 > blind[1]


def test_descending_brings_one_set_to_the_other():
    x, a, y, _ = sets(n=6, k=6, dtype=torch.float32)
    sinkhorn, far = Sinkhorn(blur=0.05, mixture=0.0), None
    for _ in range(150):
        y = y - 0.3 * sinkhorn.gradient(x, a, y, a)
        far = far or float(sinkhorn.divergence(x, a, sets(n=6, k=6, dtype=torch.float32)[2], a))
    assert float(sinkhorn.divergence(x, a, y, a)) < 0.01 * far


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 4), (40, 3)])
def test_float32_and_odd_sizes_stay_finite(n, k):
    x, a, y, b = sets(n, k, side=28, dtype=torch.float32)
    found = Sinkhorn().gradient(x, a, y, b)
    assert found.shape == y.shape and found.dtype == torch.float32 and torch.isfinite(found).all()


@pytest.mark.parametrize("bad", [{"blur": 0.0}, {"rounds": 0}, {"mixture": -1.0}, {"label": -1.0}, {"debias": -0.1}])
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        Sinkhorn(**bad)


def test_geomloss_agrees():
    geomloss = pytest.importorskip("geomloss")
    x, a, y, b = sets()
    ours = Sinkhorn(blur=0.5, mixture=0.0, label=0.0, rounds=500)
    flat = [t.flatten(1) * 2 - 1 for t in (x, y)]
    # Their cost at p = 2 is half of ours, and their blur is squared.
    theirs = geomloss.SamplesLoss("sinkhorn", p=2, blur=0.5, scaling=0.99, backend="tensorized")(*flat)
    assert float(ours.divergence(x, a, y, b)) == pytest.approx(2 * float(theirs), rel=1e-3)
