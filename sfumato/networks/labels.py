"""Which labels a set of synthetic images gets."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def allot(count: int, weights: Sequence[float], generator: torch.Generator) -> Tensor:
    """`count` labels in the proportions of `weights`, as even as whole numbers allow, in random order.

    >>> allot(10, [0.5, 0.3, 0.2], torch.Generator().manual_seed(0)).bincount().tolist()
    [5, 3, 2]
    """
    share = torch.tensor(weights, dtype=torch.float64)
    exact = count * share / share.sum()
    counts = exact.floor()
    left = int(count - counts.sum().item())
    # Largest remainders first; ties go to the lower class.
    counts[torch.argsort(exact - counts, descending=True, stable=True)[:left]] += 1
    labels = torch.repeat_interleave(torch.arange(len(share)), counts.long())
    return labels[torch.randperm(count, generator=generator)]
