"""A method that looks for records wherever a process can look, and counts what it finds."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np
import torch

from sfumato.methods.embedding.dp_merf import DPMERF
from sfumato.privacy.barrier import behind

SEED = 20261118
WORDS = 8  # of 8 bytes: one record of 8 x 8 pixels
PIECE = 2**24  # bytes that are read at once


def word(place):
    """A part of the mark. The whole of it is never put together here, so that nobody finds his own search."""
    return int(np.random.default_rng([SEED, place]).integers(2**63))


def marked(count):
    """Records that all bear the mark."""
    mark = b"".join(word(place).to_bytes(8, "little") for place in range(WORDS))
    return np.frombuffer(mark, np.uint8).reshape(1, 8, 8).repeat(count, 0), np.arange(count) % 3


def seen_in(raw):
    """How often the mark stands in some memory, at places where numbers of 8 bytes may begin."""
    words = np.frombuffer(raw, np.uint64, len(raw) // 8)
    starts = np.flatnonzero(words[: len(words) - WORDS + 1] == np.uint64(word(0)))
    return sum(all(int(words[at + place]) == word(place) for place in range(1, WORDS)) for at in starts)


def in_objects():
    """Records in arrays that the garbage collector knows of, directly or by what refers to them."""
    arrays = {id(r): r for o in gc.get_objects() for r in gc.get_referents(o) if issubclass(type(r), np.ndarray)}
    plain = [a for a in arrays.values() if a.dtype == np.uint8 and a.size >= 64]
    return sum(seen_in(np.ascontiguousarray(a).tobytes()) for a in plain)


def in_memory():
    """Records anywhere in what this process can read of itself."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        kinds = [line.split()[:2] for line in maps.read().splitlines()]
        ends = [[int(end, 16) for end in where.split("-")] for where, may in kinds if may.startswith("rw")]
        return sum(in_region(memory, *both) for both in ends)


def in_region(memory, first, last):
    """A piece after the other; what stands on the edge of two is not counted, and no edge meets all records."""
    found = 0
    for at in range(first, last, PIECE):
        try:
            memory.seek(at)
            found += seen_in(memory.read(min(PIECE, last - at)))
        except (OSError, ValueError, OverflowError):  # gone by now, or nothing that can be read
            continue
    return found


def behind_barrier(barrier):
    """Whether what the barrier stands in front of has records."""
    sums = getattr(behind(barrier), "sums", None)
    return int(sums is not None and sums.data is not None)


@dataclass(frozen=True, kw_only=True)
class Prying(DPMERF):
    """DP-MERF, after a look around."""

    def learn(self, barrier, run, public=None):
        learned = super().learn(barrier, run, public)
        found = [in_objects(), in_memory(), behind_barrier(barrier)]
        run.made["found"] = torch.tensor(found)
        return learned
