"""What the copies of a record show a diffusion model: at which noise levels, and changed how.

normal   ln sigma ~ N(P_mean, P_std^2)                                                           (Karras et al. 2022)
middle   t of a linear schedule of 1000 steps, most of them in its middle, where images get their shape; sigma^2 is the
         noise of step t over its signal                                           (after Ghalebikesabi et al. 2023)

A change is a function of the record, the step and the copy, so that K copies average K changes (augmentation
multiplicity) and the sum has the bound that it had.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from sfumato.record_rng import uniform

LEVELS = ("normal", "middle")
AUGMENTS = ("none", "shift", "shift-flip")
MIDDLE = ((0.0, 0.03, 0.015), (0.03, 0.6, 0.785), (0.6, 1.0, 0.2))  # from, to, share of the copies
BETA = (0.1, 20.0)  # of the schedule, at its beginning and its end
SALT = 3  # of what a change draws; levels, labels and noise have those below
SHIFT = 8  # a side over how many pixels a shift may have


def normal_levels(u: Tensor, mean: float, deviation: float) -> Tensor:
    """sigma at the quantiles u of its law."""
    sigma: Tensor = (mean + deviation * torch.special.ndtri(u.clamp(1e-6, 1 - 1e-6))).exp()
    return sigma


def middle_levels(u: Tensor) -> Tensor:
    """The same of the steps of a schedule, by their shares.

    >>> [round(float(s), 3) for s in middle_levels(torch.tensor([0.015, 0.5, 0.8]))]
    [0.11, 1.856, 6.097]
    """
    t = torch.zeros_like(u)
    before = 0.0
    for low, high, share in MIDDLE:
        t = torch.where(u >= before, low + (high - low) * (u - before) / share, t)
        before += share
    integral = BETA[0] * t + (BETA[1] - BETA[0]) * t.square() / 2
    return integral.expm1().clamp(min=1e-6).sqrt()


def changed(images: Tensor, own: Tensor, augment: str) -> Tensor:
    """Each image moved by up to an eighth of a side, over its own black, and flipped or not."""
    if augment == "none":
        return images
    n, channels, height, width = images.shape
    up, left = (side // SHIFT for side in (height, width))
    rows = torch.arange(height, device=images.device) + _below(own, 2 * up + 1, SALT)[:, None]
    columns = torch.arange(width, device=images.device) + _below(own, 2 * left + 1, SALT + 1)[:, None]
    if augment == "shift-flip":
        columns = torch.where(uniform(own, (1,), SALT + 2) < 0.5, columns.flip(1), columns)
    wide = pad(images, (left, left, up, up))
    places = torch.arange(n, device=images.device)[:, None, None, None]
    layers = torch.arange(channels, device=images.device)[None, :, None, None]
    return wide[places, layers, rows[:, None, :, None], columns[:, None, None, :]]


def _below(own: Tensor, count: int, salt: int) -> Tensor:
    """(n,) whole numbers below `count`."""
    return (uniform(own, (), salt) * count).long()
