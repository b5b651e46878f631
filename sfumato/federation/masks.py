"""Masks that hide a site's sum from the coordinator and vanish in the sum of all (after Bonawitz et al. 2017).

    message of i  =  value_i + self_i + sum_{j>i} pair_ij - sum_{j<i} pair_ji        modulo 2^64

Pairs of sites agree on keys by X25519; each attempt at a question has seeds of its own by HKDF, and a seed becomes as
many words as are needed by ChaCha20. The coordinator sees messages, which are uniform, and is told in the end: the self
seeds of those that answered, and the pair seeds of those with each that did not. So it can form the sum of all that
answered, and of no fewer.

Seeds follow from two secrets that a site keeps for a run, so a site that was killed can still open what it has sent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
SEED = 32  # bytes


@dataclass(frozen=True)
class Attempt:
    """Which try at which question of which run: what every seed belongs to."""

    run: str
    question: int
    number: int

    def seed(self, secret: bytes, about: str) -> bytes:
        """The seed that a secret gives this attempt; nothing of the secret, or of another attempt, follows from it."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = f"sfumato/{self.question}/{self.number}/{about}".encode()
        return bytes(HKDF(SHA256(), SEED, self.run.encode(), info).derive(secret))


def words(seed: bytes, count: int) -> Words:
    """So many uniform words of a seed, which is used once."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


class Keys:
    """The two secrets of a site for one run: a key for pairs, and one of its own."""

    def __init__(self, secret: bytes | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self.secret = os.urandom(2 * SEED) if secret is None else secret
        self._pairs = X25519PrivateKey.from_private_bytes(self.secret[:SEED])
        self.public: bytes = self._pairs.public_key().public_bytes_raw()

    def shared(self, public: bytes) -> bytes:
        """What this site and the owner of another public key have in common."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return bytes(self._pairs.exchange(X25519PublicKey.from_public_bytes(public)))


def fingerprint(public: bytes) -> str:
    """A public key in few letters, to be read out over the telephone."""
    digest = hashlib.sha256(public).hexdigest()[:32]
    return " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))


class Masks:
    """The masks of one site among others, whose public keys it knows."""

    def __init__(self, name: str, keys: Keys, publics: Mapping[str, bytes]) -> None:
        self.name = name
        self._own = keys.secret[SEED:]
        self._shared = {other: keys.shared(public) for other, public in publics.items() if other != name}

    def hide(self, values: NDArray[np.int64], attempt: Attempt) -> Words:
        """The values under the mask of this site and those of all its pairs."""
        hidden = values.ravel().astype(np.int64).view(np.uint64) + words(self._self(attempt), values.size)
        for other in self._shared:
            pair = words(self._pair(attempt, other), values.size)
            hidden = hidden + pair if self.name < other else hidden - pair
        return hidden

    def reveal(self, attempt: Attempt, answered: Sequence[str]) -> dict[str, Any]:
        """What opens the sum of those that answered: this site's own seed, and its pairs with who is missing."""
        missing = [other for other in self._shared if other not in answered]
        return {"own": self._self(attempt), "pairs": {other: self._pair(attempt, other) for other in missing}}

    def _self(self, attempt: Attempt) -> bytes:
        return attempt.seed(self._own, f"own/{self.name}")

    def _pair(self, attempt: Attempt, other: str) -> bytes:
        return attempt.seed(self._shared[other], "pair/" + "/".join(sorted((self.name, other))))


def unmasked(hidden: Mapping[str, Words], revealed: Mapping[str, Mapping[str, Any]]) -> NDArray[np.int64]:
    """The sum of all that answered, from their messages and from what each of them revealed."""
    total = np.zeros_like(next(iter(hidden.values())))
    for name, message in hidden.items():
        total += message - words(revealed[name]["own"], len(message))
        for other, seed in revealed[name]["pairs"].items():
            pair = words(seed, len(message))
            total = total - pair if name < other else total + pair
    return total.view(np.int64)
