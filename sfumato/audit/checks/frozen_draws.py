"""Gradient queries whose draws are frozen, and canaries whose loss says anything at all.

What a query draws for an example (noise levels, latents) is drawn independently of the data, so that neighbours may be
compared under the same draws (privacy.md 1.5, Lemma T). A draw belongs to its image then, wherever that stands in a
batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.engine.gradients.per_example import ClippedGradient, Loss
from sfumato.privacy.bounds import Bound

ROWS = 32  # draws in a table; images share them
FACTORS = {
    "nan": torch.nan,
    "infinite": torch.inf,
    "huge": 1e30,
    "tiny": 1e-30,
    "opposite": -1.0,
    "loud": 1e12,
    "turned": -1e12,
}
WILD = ("nan", "infinite", "huge", "tiny", "opposite", "loud")


def table_of(query: Any) -> tuple[Tensor, ...]:
    """A few draws of a query, of one that has any."""
    if not isinstance(query, ClippedGradient) or query.draw is None:
        return ()
    return query.draw(ROWS * query.noise_multiplicity)


def frozen(query: Any, table: tuple[Tensor, ...]) -> Any:
    """The query with draws of this table, where it draws."""
    return FrozenDraws(query, table) if isinstance(query, ClippedGradient) else query


@dataclass(frozen=True, eq=False)
class FrozenDraws:
    """A gradient query as a barrier takes it, with draws that stay with their image."""

    query: ClippedGradient
    table: tuple[Tensor, ...]
    by_class: bool = False

    @property
    def bound(self) -> Bound:
        """That of the query."""
        return self.query.bound

    @property
    def sees(self) -> Any:
        """That of the query."""
        return self.query.sees

    @property
    def shape(self) -> tuple[int]:
        """That of the query."""
        return self.query.shape

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """That of the query."""
        return self.query.answer_shape(classes)

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        """The real sum."""
        return self.on(images).total(images, labels, *public, there=there)

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """The real rows."""
        return self.on(images).rows(images, labels, *public)

    def on(self, images: Tensor) -> ClippedGradient:
        """The real query, with the draws of these images."""
        if not self.table:
            return self.query
        bare = images.detach().flatten(1)[:, 1:].cpu().numpy()  # without the mark
        named = (hashlib.blake2b(image.tobytes(), digest_size=4).digest() for image in bare)
        places = np.array([int.from_bytes(name, "big") % ROWS for name in named])
        lines = (places[:, None] * self.query.noise_multiplicity + np.arange(self.query.noise_multiplicity)).ravel()

        def draw(n: int) -> tuple[Tensor, ...]:
            at = torch.from_numpy(np.resize(lines, n))
            return tuple(t[at.to(t.device)] for t in self.table)

        return replace(self.query, draw=draw)

    def louder(self, kinds: Mapping[int, str]) -> FrozenDraws:
        """With losses times a factor of a kind for images whose first value is such a mark; see `marked`."""
        factors = torch.ones(256)
        for mark, kind in kinds.items():
            factors[mark] = FACTORS[kind]
        return replace(self, query=replace(self.query, loss=_times(self.query.loss, factors)))


def _times(loss: Loss, factors: Tensor) -> Loss:
    def wild(net: Any, images: Tensor, labels: Tensor, *rest: Any) -> Tensor:
        factor = factors.to(images.device)[(images[:, 0, 0, 0] * 255).round().long()]
        place = torch.zeros(images.shape[1:], device=images.device)
        place[0, 0, 0] = 1
        return loss(net, images * (1 - place), labels, *rest) * factor  # the mark itself is not seen

    return wild


def marked(images: np.ndarray, marks: np.ndarray | int) -> np.ndarray:
    """Images with a mark in their first value."""
    copies = images.copy()
    copies[:, 0, 0, 0] = marks
    return copies
