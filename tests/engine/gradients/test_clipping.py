"""Clips bound every row, sparsify as published, and a threshold that adapts stays within its public bounds."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.accounting.budget import Relation
from sfumato.engine.gradients.clipping import Automatic, Flat, PerLayer, QuantileClip
from sfumato.engine.gradients.topk import TopK


def rows(count: int = 2000, width: int = 7) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    scale = 10 ** (6 * torch.rand(count, 1, generator=random, dtype=torch.float64) - 3)
    return torch.randn(count, width, generator=random, dtype=torch.float64) ** 3 * scale


def lengths(clip, rows: torch.Tensor, layers: int = 1) -> torch.Tensor:
    kept = clip.keep(rows)
    squared = torch.stack([part.square().sum(1) for part in kept.tensor_split(layers, 1)], 1)
    return (clip.weights(squared) * squared.sqrt()).norm(dim=1)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(
    "clip",
    [Flat(0.7), Flat(0.7, threshold=4.0), PerLayer(0.7), Automatic(0.7), TopK(0.7, 0.6), TopK(0.7, 0.3, by="count")],
)
def test_no_row_is_longer_than_the_bound(clip, layers):
    found = lengths(clip, rows(), layers)
    assert float(found.max()) <= clip.bound.norm * (1 + 1e-12)
    assert float(found.max()) > 0.9 * clip.bound.norm
    assert clip.bound.sensitivity(Relation.REPLACE_ONE) == 2 * clip.bound.sensitivity(Relation.ADD_REMOVE)


def test_shares_split_the_norm():
    weights = PerLayer(1.0, (1.0, 2.0, 2.0)).weights(torch.full((1, 3), 1e6, dtype=torch.float64))
    assert torch.allclose(weights * 1e3, torch.tensor([[1, 2, 2]], dtype=torch.float64) / 3)
    with pytest.raises(ValueError, match="each of 2 layers"):
        PerLayer(1.0, (1.0, 2.0, 2.0)).weights(torch.ones(1, 2))


def test_a_threshold_that_moves_leaves_the_bound():
    squared = torch.tensor([[4.0], [100.0]])
    for threshold in (1.0, 5.0, 20.0):
        clip = Flat(1.0, threshold)
        assert clip.bound == Flat(1.0).bound
        expected = squared.sqrt().clamp(max=threshold) / threshold
        assert torch.allclose(clip.weights(squared) * squared.sqrt(), expected)


@pytest.mark.parametrize("k", [0.2, 0.6, 0.8, 1.0])
def test_norm_top_k_stays_at_or_below_its_energy(k):
    found, full = TopK(1.0, k).keep(rows()), rows()
    share = found.square().sum(1) / full.square().sum(1)
    assert float(share.max()) <= k * (1 + 1e-12)
    # The next coordinate would have crossed it, and what is kept is the largest.
    left = full.abs().where(found == 0, 0).amax(1).square() / full.square().sum(1)
    assert bool((share + left > k).logical_or(left == 0).all())
    smallest = found.abs().where(found != 0, math.inf).amin(1)
    assert bool((smallest >= full.abs().where(found == 0, 0).amax(1)).all())
    assert k < 1 or torch.equal(found, full)


def test_a_row_of_one_large_coordinate_is_lost_and_not_leaked():
    assert TopK(1.0, 0.6).keep(torch.tensor([[0.0, 9.0, 1.0]])).abs().sum() == 0


@pytest.mark.parametrize(("k", "width", "kept"), [(0.7, 10, 7), (0.2, 7, 1), (0.01, 7, 1), (1.0, 7, 7), (0.1, 30, 3)])
def test_top_k_by_count_keeps_the_k_largest(k, width, kept):
    full = rows(50, width)
    found = TopK(1.0, k, by="count").keep(full)
    assert bool(((found != 0).sum(1) == kept).all())
    assert torch.allclose(found.abs().sum(1), full.abs().topk(kept, 1).values.sum(1))


def test_zero_rows_stay_zero():
    for clip in (Flat(1.0), PerLayer(1.0), Automatic(1.0), TopK(1.0, 0.5)):
        assert clip.keep(torch.zeros(1, 4)).abs().sum() == 0
        assert bool(clip.weights(torch.zeros(1, 2)).isfinite().all())


def test_the_threshold_finds_the_quantile():
    norms = torch.rand(1000, generator=torch.Generator().manual_seed(0)) * 8
    state = QuantileClip(0.1, quantile=0.75, rate=0.3)
    for _ in range(100):
        state = state.update(float(state.votes(norms).mean()))
    assert state.threshold == pytest.approx(6.0, rel=0.05)


def test_the_threshold_stays_between_its_bounds_whatever_is_released():
    state = QuantileClip(1.0, rate=5.0, low=0.5, high=2.0)
    assert state.update(1e9).threshold == 0.5 and state.update(-1e9).threshold == 2.0
    assert state.update(math.nan).threshold == 1.0
    assert state.votes(torch.tensor([math.nan, math.inf, 0.0])).flatten().tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Flat(0.0),
        lambda: Flat(math.nan),
        lambda: Flat(1.0, -1.0),
        lambda: PerLayer(1.0, (1.0, 0.0)),
        lambda: Automatic(1.0, 0.0),
        lambda: TopK(1.0, 1.5),
        lambda: TopK(1.0, 0.5, by="norm"),
        lambda: QuantileClip(1.0, low=2.0),
        lambda: QuantileClip(1.0, quantile=1.0),
    ],
)
def test_settings_without_meaning_are_refused(make):
    with pytest.raises(ValueError, match="Expected"):
        make()
