"""What the tests of methods with a DP-SGD generator share: easy images, and learning with hardly any noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato import Budget, Run, load
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer


def halves(n=240, size=8):
    """Two classes: bright above, or bright below."""
    random, labels = np.random.default_rng(0), np.arange(n) % 2
    images = np.full((n, size, size), 0.1)
    images[labels == 0, : size // 2] = images[labels == 1, size // 2 :] = 0.9
    return (np.clip(images + 0.05 * random.normal(size=images.shape), 0, 1) * 255).astype(np.uint8), labels


def learned(method, multiplier=1e-3, public=None):
    """The generator of `method` on those images, every crossing with next to no noise."""
    data = load(halves())
    plan = method.plan(data.spec, Budget(8.0))
    quiet = {name: replace(c, mechanism=type(c.mechanism)(multiplier)) for name, c in plan.crossings.items()}
    barrier = Barrier(data, data.spec, Odometer(replace(plan, crossings=quiet)))
    return method.learn(barrier, Run(device="cpu"), public)


def told_apart(net, n=40):
    """The share of samples that are bright where their label says, by a clear margin."""
    made = net.sample(n, seed=1)
    half = made.pixels.shape[2] // 2
    above, below = made.pixels[:, 0, :half].mean((1, 2)), made.pixels[:, 0, half:].mean((1, 2))
    return float(((above - below) * np.where(made.labels == 0, 1, -1) > 80).mean())
