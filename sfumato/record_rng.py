"""Numbers that look random and are a function of what they belong to.

The noise that DP-SGD puts into an example (its noise level, its latent, its grain) must not depend on the other
examples of a batch, not even through their number: drawn in the order of a batch, it would change for all that follow
when one record leaves. Here it is a function of the record itself, of the public key of a step and of the number of a
copy, by the mixer of SplitMix64 (Steele, Lea and Flood 2014). It protects nothing: privacy noise comes from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# as signed 64-bit numbers
GOLDEN = -0x61C8864680B583EB
FIRST = -0x40A7B892E31B1A47
SECOND = -0x6B2FB644ECCEEE15
UNIT = 2.0**-24

Draw = Callable[[int], tuple[Tensor, ...]]


def mixed(x: Tensor) -> Tensor:
    """Whole numbers of 64 bits, each a mixture of all the bits of its own; products wrap around.

    >>> mixed(torch.tensor([0, 1])).tolist()
    [-2152535657050944081, -7995527694508729151]
    """
    x = x + GOLDEN
    x = (x ^ _right(x, 30)) * FIRST
    x = (x ^ _right(x, 27)) * SECOND
    return x ^ _right(x, 31)


def _right(x: Tensor, by: int) -> Tensor:
    return (x >> by) & ((1 << (64 - by)) - 1)


def keys_of(values: Tensor, keys: Tensor) -> Tensor:
    """(n,) keys that depend on all of a row's whole numbers and on the row's own key."""
    flat = values.flatten(1).long()
    weights = mixed(torch.arange(flat.shape[1], device=flat.device)) | 1
    return mixed(mixed((flat * weights).sum(1)) ^ keys)


def record_keys(images: Tensor, keys: Tensor) -> Tensor:
    """(n,) keys of images in [0, 1], known by their 256 levels."""
    return keys_of(images.detach().mul(255).round().nan_to_num(0.0, 0.0, 0.0).clamp(0, 255), keys)


def uniform(keys: Tensor, shape: Sequence[int], salt: int = 0) -> Tensor:
    """(n, *shape) numbers above 0 and below 1, in float32."""
    return ((_bits(keys, math.prod(shape), salt) & 0xFFFFFF) + 0.5).float().mul(UNIT).view(-1, *shape)


def normal(keys: Tensor, shape: Sequence[int], salt: int = 0) -> Tensor:
    """(n, *shape) standard normal numbers in float32, two of each mixture (Box and Muller)."""
    count = math.prod(shape)
    bits = _bits(keys, -(-count // 2), salt)
    length = ((bits & 0xFFFFFF) + 0.5).float().mul(UNIT).log().mul(-2).sqrt()
    angle = _right(bits, 40).float().mul(2 * math.pi * UNIT)
    pairs = torch.cat([length * angle.cos(), length * angle.sin()], 1)
    return pairs[:, :count].reshape(-1, *shape)


def _bits(keys: Tensor, count: int, salt: int) -> Tensor:
    place = torch.arange(count, device=keys.device) * GOLDEN
    return mixed(mixed(keys + salt)[:, None] + place)


def drawing(generator: Callable[[str, int], torch.Generator], noise_multiplicity: int = 1) -> Callable[[int], Draw]:
    """For `DPSGD`: hands each row the key of the step and of its copy, and the number of the copy."""

    def at(step: int) -> Draw:
        key = torch.randint(2**62, (), generator=generator("records", step))

        def draw(rows: int) -> tuple[Tensor, ...]:
            copy = torch.arange(rows) % noise_multiplicity
            return mixed(key + copy), copy

        return draw

    return at
