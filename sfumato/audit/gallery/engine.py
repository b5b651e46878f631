"""A step of DP-SGD, to plant bugs in: real per-example gradients, clipping, barrier, sampler and noise.

The network is linear, without a bias, and the loss its score: the gradient of a record is the record itself, which may
be anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.audit.gallery.common import SPEC, add_noise, declared, noise, odometer, vector_pairs
from sfumato.audit.recording.gradients import jacobian
from sfumato.audit.recording.subject import Array, Rows, Subject
from sfumato.data.private import PrivateImages, Records
from sfumato.engine.gradients.clipping import Clip, Flat
from sfumato.engine.gradients.per_example import ClippedGradient, Loss, per_example
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Summed
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.ranks import Ranks

# parameters, and public size of a batch
D = 6
EXPECTED = 16
MULTIPLIER = 1.0
FREE = 1 << 40  # uses


def score(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """A loss whose gradient is the image."""
    scores: Tensor = net(images.flatten(1))
    return scores[:, 0]


def linear(clip: Clip | float = 1.0) -> ClippedGradient:
    """Sums of clipped records."""
    return per_example(nn.Linear(D, 1, bias=False), score, clip, batch=EXPECTED)


class Untried(dict[Any, str]):
    """In place of the engine's choice: the fast way, whether or not examples stay apart in it."""

    def __contains__(self, place: object) -> bool:
        return True

    def __missing__(self, place: object) -> str:
        return "ghost"


def untried(net: nn.Module, loss: Loss) -> ClippedGradient:
    """The engine without the trial that would have refused the fast way."""
    return ClippedGradient(net, loss, Flat(1.0), batch=EXPECTED, _chosen=Untried())


def batch(data: Array) -> tuple[Tensor, Tensor]:
    """Vectors as images, all of one class."""
    data = np.asarray(data, dtype=np.float32)
    return torch.from_numpy(data)[:, None, None], torch.zeros(len(data), dtype=torch.long)


def total(query: ClippedGradient, data: Array, *public: Any) -> Array:
    """The exact sum, as the mechanism gets it."""
    grid = query.bound.grid
    with np.errstate(over="ignore"):  # what is too large for float32 is infinite
        images, labels = batch(data)
    return (torch.round(query.total(images, labels, *public) / grid) * grid).numpy()


def rows(query: ClippedGradient, data: Array, *public: Any) -> Array:
    """Clipped gradients one by one."""
    return query.rows(*batch(data), *public).numpy()


def rows_of(query: ClippedGradient, draw: Any, change: Any, *public: Any) -> Rows:
    """Clipped gradients and their derivatives, as a subject has them."""
    return Rows(
        lambda data: rows(query, data, *public), draw, change, lambda data: jacobian(query, *batch(data), *public)
    )


class _Vectors:
    """Pixels that are anything: the barrier divides them by 255."""

    def __init__(self, data: Array) -> None:
        self._data = data
        self.shape = (1, 1, data.shape[1])

    def read(self, rows: Any) -> Array:
        return np.asarray(self._data[rows][:, None, None] * 255, dtype=np.float64)

    def close(self) -> None:
        """Nothing to free."""


def barrier(crossing: Crossing, data: Array | None = None, ranks: Ranks | None = None) -> Barrier:
    """A real barrier around vectors, or a blind one."""
    box = None
    if data is not None:
        labels = np.zeros(len(data), np.int64)
        digests = np.zeros((len(data), 32), np.uint8)
        box = PrivateImages(SPEC, Records(_Vectors(data), labels, None, digests))
    return Barrier(box, SPEC, odometer({"gradient": crossing}), noise=noise(), ranks=ranks)


def free(query: Summed, multiplier: float = MULTIPLIER, **parts: Any) -> Crossing:
    """A crossing of this query that may be used at will."""
    return replace(crossing(query.bound, multiplier, times=FREE), **parts)


def gradient_step(name: str, query: ClippedGradient, **parts: Any) -> Subject:
    """One step as a subject; all claims are those of the real parts."""
    crossing = free(query)
    blind = barrier(crossing)
    given = dict(
        declared=declared(query.bound),
        sigma=crossing.mechanism.std(query.bound),
        grid=query.bound.grid,
        pairs=vector_pairs(D),
        exact=lambda data: total(query, data),
        nothing=(None,),
        release=lambda data: (blind if data is None else barrier(crossing, data)).release("gradient", query).numpy(),
        projected=lambda exact, u, n: add_noise(np.tile(exact, (n, 1)), crossing.mechanism, query.bound) @ u,
    )
    return Subject(name=name, **(given | parts))  # type: ignore[arg-type]
