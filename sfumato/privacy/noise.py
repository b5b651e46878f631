"""Where privacy noise comes from: a cryptographic stream keyed by the operating system.

No seed reaches it, nothing stores it, and a forked process draws a stream of its own.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

REKEY_BYTES = 1 << 32  # far below the period of the stream


def _chacha20(key: bytes) -> Callable[[int], bytes]:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return lambda n: bytes(encryptor.update(bytes(n)))


def _shake256(key: bytes) -> Callable[[int], bytes]:
    counter = 0

    def stream(n: int) -> bytes:
        nonlocal counter
        counter += 1
        return hashlib.shake_256(key + counter.to_bytes(16, "big")).digest(n)

    return stream


def _open_stream(key: bytes) -> tuple[str, Callable[[int], bytes]]:
    try:
        return "ChaCha20", _chacha20(key)
    except ImportError:  # a machine without the cryptography package
        return "SHAKE-256", _shake256(key)


@dataclass(frozen=True)
class NoiseFacts:
    """What a statement says of a noise source."""

    source: str
    sampler: str

    @classmethod
    def of(cls, noise: Noise) -> NoiseFacts:
        """Of this one."""
        return cls(noise.source, noise.sampler)


class Noise:
    """A stream of secret randomness.

    With `fast`, Gaussian values are float64 draws on the device by a counter-based generator (Philox on a GPU) that
    gets a fresh key from the cryptographic stream at each call. That is quick and unpredictable without the key, but
    neither a cryptographic stream nor exact in the tails, so `source` and `sampler` say it.

    >>> Noise().gaussian((2, 3), 1e6).shape
    torch.Size([2, 3])
    """

    def __init__(self, fast: bool = False) -> None:
        self._fast = fast
        self._rekey()

    def _rekey(self) -> None:
        self._owner = os.getpid()
        self._left = REKEY_BYTES
        self._name, self._stream = _open_stream(os.urandom(32))

    @property
    def source(self) -> str:
        """Where the noise comes from, for the privacy statement."""
        fast = "a counter-based generator on the device, keyed afresh for each release by "
        return (fast if self._fast else "") + f"{self._name} keyed by the operating system"

    @property
    def sampler(self) -> str:
        """How Gaussian noise is drawn, for the privacy statement."""
        return "float64 Gaussian rounded to a public grid" if self._fast else "exact discrete Gaussian on a public grid"

    def __getstate__(self) -> object:
        raise TypeError("A noise source is never stored.")

    def take(self, count: int) -> bytes:
        """The next `count` secret bytes; a fork or a used-up key starts a new stream."""
        if self._owner != os.getpid() or self._left < count:
            self._rekey()
        self._left -= count
        return self._stream(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words."""
        return np.frombuffer(self.take(8 * count), dtype=np.uint64)

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Uniform in (0, 1), on the odd multiples of 2^-53: none of them rounds, and neither end is reached."""
        return ((self.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def below(self, limit: int, count: int) -> NDArray[np.int64]:
        """Uniform integers in [0, limit), without modulo bias."""
        cut = (1 << 63) // limit * limit
        kept = np.empty(0, dtype=np.uint64)
        while len(kept) < count:
            words = self.words(count - len(kept) + 16) >> np.uint64(1)
            kept = np.concatenate([kept, words[words < np.uint64(cut)]])
        return (kept[:count] % np.uint64(limit)).astype(np.int64)

    def gaussian(self, shape: tuple[int, ...], spread: float, device: str | torch.device = "cpu") -> Tensor:
        """Whole numbers, as float64, of a Gaussian law with this standard deviation, which is many steps.

        The exact discrete Gaussian: at such spreads no accountant can tell it from the continuous one (they differ by
        about exp(-2 pi^2 spread^2)), and unlike a rounded float64 Gaussian it has no holes in its tails.
        """
        if self._fast:
            keyed = torch.Generator(device).manual_seed(int(self.words(1)[0] >> np.uint64(1)))
            return torch.round(torch.randn(shape, generator=keyed, device=device, dtype=torch.float64) * spread)
        return torch.from_numpy(self.discrete_gaussian(spread, shape)).to(device, torch.float64)

    def discrete_gaussian(self, sigma: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Exact draws from the discrete Gaussian (Canonne, Kamath and Steinke 2020, Algorithm 3), vectorised."""
        total = math.prod(shape)
        found = np.empty(0, dtype=np.int64)
        while len(found) < total:
            found = np.concatenate([found, self._gaussian_round(sigma, int(1.7 * (total - len(found))) + 64)])
        return found[:total].reshape(shape)

    def discrete_laplace(self, scale: Fraction, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Exact draws with P(y) proportional to exp(-|y| / scale) (Canonne, Kamath and Steinke 2020, Algorithm 2)."""
        total = math.prod(shape)
        found = np.empty(0, dtype=np.int64)
        while len(found) < total:
            count = int(1.7 * (total - len(found))) + 64
            found = np.concatenate([found, self._discrete_laplace(scale.numerator, count, scale.denominator)])
        return found[:total].reshape(shape)

    def _gaussian_round(self, sigma: float, count: int) -> NDArray[np.int64]:
        t = math.floor(sigma) + 1
        y = self._discrete_laplace(t, count)
        centre = Fraction(sigma) ** 2 / t
        width = 2 * Fraction(sigma) ** 2
        gap = np.abs(y).astype(np.float64) - float(centre)
        kept = self.bernoulli_exp(gap**2 / float(width), lambda i: (abs(int(y[i])) - centre) ** 2 / width)
        accepted: NDArray[np.int64] = y[kept]
        return accepted

    def _discrete_laplace(self, t: int, count: int, s: int = 1) -> NDArray[np.int64]:
        """P(y) proportional to exp(-|y| s/t): s |y| <= u + t v < s (|y| + 1) with u below t and v geometric."""
        u = self.below(t, count)
        u = u[self.bernoulli_exp(u / t, lambda i: Fraction(int(u[i]), t))]
        v = np.zeros(len(u), dtype=np.int64)
        alive = np.arange(len(u))
        while len(alive):
            alive = alive[self.bernoulli_exp(np.ones(len(alive)), lambda i: Fraction(1))]
            v[alive] += 1
        magnitude = (u + t * v) // s
        sign = self.below(2, len(u))
        keep = (sign == 0) | (magnitude > 0)  # otherwise zero would count twice
        values: NDArray[np.int64] = np.where(sign == 0, magnitude, -magnitude)[keep]
        return values

    def bernoulli_exp(
        self, exponent: NDArray[np.float64], exactly: Callable[[int], Fraction], margin: float = 1e-11
    ) -> NDArray[np.bool_]:
        """True with probability exactly exp(-exponent).

        Float64 decides unless the uniform falls within `margin` of the probability, far more than the rounding
        error; then more secret bits and exact arithmetic decide. So the law is exact and the common path vectorised.
        """
        u = self.uniform(len(exponent))
        p = np.exp(-exponent)
        result = u < p
        for i in np.flatnonzero(np.abs(u - p) < margin):
            result[i] = self._decide(float(u[i]), exactly(int(i)))
        return result

    def _decide(self, coarse: float, exponent: Fraction) -> bool:
        with localcontext() as context:
            context.prec = 100
            p = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
            fine = Decimal(int.from_bytes(self.take(24), "big")) / Decimal(1 << 192)
            return (Decimal(coarse) - Decimal(2) ** -53) + fine * Decimal(2) ** -52 < p
