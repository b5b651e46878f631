"""The largest coordinates of a gradient: which they are, by definition and by the GPU's kernel, and their bound."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.topk import Largest, TopK, first_out, least_of, sorted_out, working
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


def sizes(rows: int = 20, width: int = 300) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).abs() ** 3


@pytest.mark.parametrize("share", [0.01, 0.5, 0.8, 0.999])
def test_the_largest_that_is_left_out_is_the_one_that_would_cross(share):
    for row, found in zip(sizes(), first_out(sizes(), share).flatten(), strict=True):
        total, energy = row.double().square().sum(), 0.0
        for size in row.sort(descending=True).values:
            energy += float(size.double() ** 2)
            if energy > share * total:
                assert size == found
                break


def test_equals_of_the_one_that_crosses_are_left_out_with_it():
    assert first_out(torch.ones(1, 10), 0.5).tolist() == [[1.0]]


def test_nothing_need_be_left_out_of_all_or_of_nothing():
    assert first_out(sizes(), 1.0).eq(-1).all()
    assert first_out(torch.zeros(2, 5), 0.5).tolist() == [[0.0], [0.0]]
    assert first_out(torch.zeros(0, 5), 0.5).shape == (0, 1)


@pytest.mark.parametrize("count", [1, 7, 300])
def test_least_of_the_largest(count):
    assert torch.equal(least_of(sizes(), count), sizes().sort(1, descending=True).values[:, [count - 1]])


@pytest.mark.gpu
@pytest.mark.parametrize("width", [1, 300, 26_010, 65_536])
def test_the_kernel_finds_what_sorting_finds(width):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    device = torch.device("cuda", torch.cuda.current_device())
    assert working(device) is not None
    rows = sizes(50, width).to(device)
    rows[1], rows[2], rows[3, 0] = 0.0, 1e30 * rows[2], 3e38
    for share in (0.3, 0.8):
        found, wanted = first_out(rows, share), sorted_out(rows, share)
        # A sum in another order may cross one coordinate earlier or later.
        place = (rows >= found).sum(1) - (rows >= wanted).sum(1)
        assert place.abs().max() <= 1, (width, share)
