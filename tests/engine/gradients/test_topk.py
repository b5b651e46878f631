"""The largest coordinates of a gradient: which they are, and that one record adds no more than declared."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfumato.engine.gradients.clipping import TopK
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.topk import Largest
from sfumato.types import Relation


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1, 0.001])
def test_they_are_those_that_sorting_finds(share):
    rows = torch.randn(7, 211, dtype=torch.float32, generator=torch.Generator().manual_seed(0)).double()
    count = max(1, int(211 * share))
    wanted = rows.where(rows.abs() >= rows.abs().sort(1, descending=True).values[:, [count - 1]], 0)
    assert torch.equal(TopK(1.0, share, by="count").keep(rows), wanted)
    assert torch.equal(Largest(1.0, share).keep(rows), wanted)
    assert torch.equal(Largest(1.0, share, signs=True).keep(rows), wanted.sign())


def test_ties_stay_and_zeros_make_nothing():
    flat, zero = torch.full((1, 10), -3.0), torch.zeros(1, 10)
    assert torch.equal(Largest(1.0, 0.5).keep(flat), flat)
    assert torch.equal(Largest(1.0, 0.5, signs=True).keep(zero), zero)
    assert torch.equal(Largest(1.0, 1.0).keep(flat), flat)


@pytest.mark.parametrize("share", [0.0, 1.1, float("nan")])
def test_other_shares_are_refused(share):
    with pytest.raises(ValueError, match="Expected share"):
        Largest(1.0, share)


@pytest.mark.parametrize("signs", [False, True])
def test_no_record_adds_more_than_declared(signs):
    torch.manual_seed(0)
    query = per_example(
        nn.Linear(16, 5),
        lambda net, images, labels: net(images.flatten(1)).square().sum(1),
        Largest(0.5, 0.3, signs),
        batch=8,
    )
    images, labels = 1e3 * torch.randn(8, 1, 4, 4), torch.zeros(8, dtype=torch.long)
    images[0], images[1], images[2] = 0.0, float("nan"), 1e30
    rows = query.rows(images, labels)
    assert rows.isfinite().all() and (rows.norm(dim=1) <= 0.5 * (1 + 1e-9)).all()
    assert rows[3:].norm(dim=1).min() > 0.49 and (rows != 0).sum(1).max() <= 0.3 * 85
    whole = query.total(images, labels)
    for i in range(8):
        moved = torch.linalg.vector_norm(whole - query.total(images[torch.arange(8) != i], labels[1:]))
        assert moved <= query.bound.sensitivity(Relation.ADD_REMOVE)
