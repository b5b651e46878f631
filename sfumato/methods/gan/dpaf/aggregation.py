"""Aggregation in the forward phase (Lin et al.: DPAF): normalised features of records, summed.

    f_i     features of record i: m maps of h x w pixels
    SIN     (x - mean) / sqrt(variance + eta) in each map of each record               norm at most sqrt(h w)
    term    SIN(f_i), projected into the ball of radius sqrt(m h w)                     Delta of the sum, add-remove
    g_i     gradient of <SIN(f_i), v> in the private layers, for a public direction v: of one record alone

With records under other labels a term has the maps of both, side by side: 2 m of them, and their bound.
Without eta a map of one grey would be 0/0. v is the slope of a loss at an aggregate that was released with its noise;
at the true aggregate it would hold every record, and a clipped g_i would bound nothing.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfumato.engine.gradients.per_example import Loss
from sfumato.privacy.bounds import Bound, BoundedSum

if TYPE_CHECKING:
    from sfumato.methods.gan.dpaf.discriminator import Lower

ETA = 1e-5


def normalised(maps: Tensor, eta: float = ETA) -> Tensor:
    """SIN, simplified instance normalisation of (B, m, h, w): each map by itself, with nothing to learn.

    >>> normalised(torch.tensor([[[[0.0, 2.0], [0.0, 2.0]]]]), eta=0.0).flatten().tolist()
    [-1.0, 1.0, -1.0, 1.0]
    >>> normalised(torch.full((1, 1, 2, 2), 7.0)).abs().max().item()
    0.0
    """
    variance, mean = torch.var_mean(maps, (2, 3), correction=0, keepdim=True)
    return (maps - mean) / (variance + eta).sqrt()


def bound_of(shape: tuple[int, int, int]) -> Bound:
    """Of the normalised features of one record: sqrt(m) p for m maps of p x p pixels.

    >>> bound_of((512, 4, 4)).norm == 512**0.5 * 4
    True
    """
    return Bound(math.sqrt(math.prod(shape)))


def aggregate(lower: Lower, by_class: bool = False, eta: float = ETA) -> BoundedSum:
    """The sum of normalised features over records, of each class apart where asked for; its noise makes it DPAGG.

    Where records are shown under other labels too, both kinds of features are one term of one record.
    """

    def terms(images: Tensor, labels: Tensor) -> Tensor:
        # A barrier with a private count computes in float64, see `privacy/barrier.py`.
        net = lower if images.dtype == torch.float32 else copy.deepcopy(lower).to(images.dtype)
        return normalised(net.shown(images, labels), eta)

    return BoundedSum(terms, bound_of(lower.summed), lower.summed, by_class)


def along(eta: float = ETA) -> Loss:
    """loss(lower, images, labels, v) -> (B,): <SIN(f_i), v>, with (1, m, h, w) v for all or (classes, m, h, w)."""

    def loss(lower: Lower, images: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
        v = direction.to(images.device).float()
        v = v[labels] if len(v) > 1 else v
        seen = lower.shown if v.shape[1] > lower.shape[0] else lower  # fakes are not shown under other labels
        return (normalised(seen(images, labels).float(), eta) * v).flatten(1).sum(1)

    return loss
