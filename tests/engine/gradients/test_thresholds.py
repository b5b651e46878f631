"""Which size is the last to stay: against the definition, and the GPU's kernel against sorting."""

from __future__ import annotations

import pytest
import torch

from sfumato.engine.gradients.thresholds import first_out, least_of, sorted_out, working


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
