"""Disjoint parts by a keyed hash of each unit's identity: a unit's part depends on nobody else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def part_of(identities: Iterable[bytes], parts: int, key: bytes) -> NDArray[np.int64]:
    """Part number of each identity: the first 8 bytes of keyed BLAKE2b, modulo `parts`.

    The key is random and independent of the data. Sizes vary; equal identities share a part.

    >>> part_of([b"a", b"b", b"a"], 10, bytes(32)).tolist()[::2] == [part_of([b"a"], 10, bytes(32))[0]] * 2
    True
    """
    if parts < 1:
        raise ValueError(f"Expected parts of at least 1, found parts={parts}.")
    digests = b"".join(hashlib.blake2b(i, key=key, digest_size=8).digest() for i in identities)
    return (np.frombuffer(digests, dtype=">u8") % np.uint64(parts)).astype(np.int64)
