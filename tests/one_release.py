"""What the suites of one-release methods share."""

from __future__ import annotations

import numpy as np

from sfumato import Budget, DataSpec, Run, load
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


def bright_and_dark(n=400):
    """Two classes of 8x8 images, bright on the left or on the right."""
    random, labels = np.random.default_rng(0), np.arange(n) % 2
    images = random.integers(0, 60, (n, 8, 8), dtype=np.uint8)
    images[labels == 0, :, :4] += 180
    images[labels == 1, :, 4:] += 180
    return load((images, labels))


def learned(method, box, epsilon=50.0, public=None):
    """The generator that `method` learns with little noise."""
    odometer = Odometer(method.plan(box.spec, Budget(epsilon)))
    return method.learn(Barrier(box, box.spec, odometer), Run(device="cpu", odometer=odometer), public)


def learned_apart(method, box):
    """By how much, with little noise, the first class is brighter on the left and the second on the right, at least."""
    images = learned(method, box).sample(40, [0, 1] * 20, seed=1)
    sides = images.pixels[:, 0, :, :4].mean((1, 2)) - images.pixels[:, 0, :, 4:].mean((1, 2))
    return min(sides[images.labels == 0].mean(), -sides[images.labels == 1].mean())
