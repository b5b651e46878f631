"""One public random rotation for everybody: it spreads a row evenly over its coordinates, and can be undone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Rotation:
    """Random signs, then the Walsh-Hadamard transform, on rows of d filled with zeros up to a power of two.

    >>> row = torch.tensor([3.0, 0.0, 4.0])
    >>> turned = Rotation(3, seed=0).turn(row)
    >>> len(turned), round(float(turned.norm()), 4), [round(x, 4) for x in Rotation(3, seed=0).back(turned).tolist()]
    (4, 5.0, [3.0, 0.0, 4.0])
    """

    d: int
    seed: int

    @property
    def size(self) -> int:
        """The next power of two."""
        return 1 << max(0, self.d - 1).bit_length()

    def turn(self, rows: Tensor) -> Tensor:
        """(..., d) to (..., size)."""
        return _transform(pad(rows, (0, self.size - self.d)) * self._signs(rows))

    def back(self, rows: Tensor) -> Tensor:
        """(..., size) to (..., d); undoes `turn`."""
        return (_transform(rows) * self._signs(rows))[..., : self.d]

    def _signs(self, like: Tensor) -> Tensor:
        return public_signs(self.seed, (self.size,)).to(like)


@lru_cache(maxsize=8)
def public_signs(seed: int, shape: tuple[int, ...]) -> Tensor:
    """Fair signs as int8; not secret and the same for all teachers."""
    random = torch.Generator().manual_seed(seed)
    return (2 * torch.randint(2, shape, generator=random) - 1).to(torch.int8)


def _transform(rows: Tensor) -> Tensor:
    """Orthogonal and its own inverse. A Hadamard matrix is a Kronecker product, so two small products do."""
    bits = rows.shape[-1].bit_length() - 1
    left, right = (_hadamard(b).to(rows) for b in (bits // 2, bits - bits // 2))
    turned: Tensor = left @ rows.unflatten(-1, (len(left), len(right))) @ right
    return turned.flatten(-2)


@lru_cache(maxsize=16)
def _hadamard(bits: int) -> Tensor:
    matrix = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(bits):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(len(matrix))
