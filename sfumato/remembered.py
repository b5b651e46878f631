"""Features that travel with a batch of images, so that a fixed map of single images is computed once for each record.

Behind the barrier a query that asks the same records many times looks at them through such a map (`query.sees`). The
barrier keeps what the map gave and attaches it to the batch; the map finds it there. Whoever holds a batch without it
computes the same.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

NAME = "remembered"


def attach(images: Tensor, by: Any, features: Tensor) -> None:
    """These are the features that `by` has of these images."""
    setattr(images, NAME, (by, features))


def recall(images: Tensor, by: Any) -> Tensor | None:
    """The features that `by` has of these images, where somebody attached them."""
    known = getattr(images, NAME, None)
    return known[1] if known is not None and known[0] is by else None


def split(images: Tensor, size: int) -> tuple[Tensor, ...]:
    """The batch in pieces of `size`, each with its part of what is attached."""
    parts: tuple[Tensor, ...] = images.split(size)
    if known := getattr(images, NAME, None):
        for part, features in zip(parts, known[1].split(size), strict=True):
            attach(part, known[0], features)
    return parts


def carried(images: Tensor, like: Tensor) -> Tensor:
    """`images` in the kind and place of `like`, with what is attached."""
    moved = images.to(like)
    if moved is not images and hasattr(images, NAME):
        setattr(moved, NAME, getattr(images, NAME))
    return moved
