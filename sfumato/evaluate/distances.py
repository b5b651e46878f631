"""Euclidean distances between many rows, in blocks: memory stays bounded whatever the sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

BLOCK = 32_000_000  # distances held at once
ROWS = 8192


def precise(device: str) -> torch.dtype:
    """float64 wherever it exists: |a|^2 + |b|^2 - 2ab cancels for near-copies, which are what attacks look for."""
    return torch.float32 if device.startswith("mps") else torch.float64


def as_rows(x: np.ndarray | Tensor) -> Tensor:
    """Rows as a tensor, in the type they came in."""
    return torch.as_tensor(x).flatten(1)


def _up(x: Tensor, centre: Tensor, device: str) -> Tensor:
    return x.to(device).to(precise(device)) - centre


def blocks(
    a: np.ndarray | Tensor, b: np.ndarray | Tensor, device: str = "cpu"
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks (rows of a, rows of b, squared distances) that together cover a x b; b's rows in the inner loop."""
    one = as_rows(a)
    two = as_rows(b)
    centre = two[:ROWS].to(device).to(precise(device)).mean(0)  # smaller numbers cancel less
    tall = max(1, min(len(one), BLOCK // max(1, min(ROWS, len(two)))))
    for i in range(0, len(one), tall):
        left = _up(one[i : i + tall], centre, device)
        norms = (left * left).sum(1, keepdim=True)
        for j in range(0, len(two), ROWS):
            right = _up(two[j : j + ROWS], centre, device)
            squared = torch.addmm(norms + (right * right).sum(1), left, right.T, alpha=-2).clamp_(min=0)
            yield slice(i, i + len(left)), slice(j, j + len(right)), squared


def nearest(
    a: np.ndarray | Tensor, b: np.ndarray | Tensor, k: int = 1, device: str = "cpu", skip_self: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest distances of each row of a to rows of b, ascending, and which rows they are.

    `skip_self` leaves out row i of b for row i of a, for a set against itself.
    """
    if len(b) - skip_self < k:
        raise ValueError(f"Expected at least {k + skip_self} rows to search, found {len(b)}.")
    values = np.empty((len(a), k))
    places = np.empty((len(a), k), dtype=np.int64)
    best: Tensor | None = None
    for rows, columns, squared in blocks(a, b, device):
        if skip_self:
            first = max(rows.start, columns.start)
            last = min(rows.stop, columns.stop)
            same = torch.arange(first, max(first, last), device=squared.device)
            squared[same - rows.start, same - columns.start] = torch.inf
        if columns.start == 0:
            best = squared.new_full((len(squared), k), torch.inf)
            where = torch.zeros(len(squared), k).long().to(device)
        assert best is not None
        closest, place = squared.topk(min(k, squared.shape[1]), largest=False)
        best, order = torch.cat([best, closest], 1).topk(k, largest=False)
        where = torch.cat([where, place + columns.start], 1).gather(1, order)
        values[rows] = best.sqrt().cpu().numpy()
        places[rows] = where.cpu().numpy()
    return values, places
