"""What a network is told of a label."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import one_hot


def known(labels: Tensor, classes: int, like: Tensor) -> Tensor:
    """(n, classes): one-hot rows in the kind of `like`, and zeros for the label -1, which stands for none.

    >>> import torch
    >>> known(torch.tensor([1, -1]), 2, torch.zeros(1)).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return one_hot(labels.clamp(min=0), classes).to(like) * (labels >= 0).to(like)[:, None]
