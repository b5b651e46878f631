"""The compressions by name, as a method's settings say them."""

from __future__ import annotations

import math

from sfumato.methods.teachers.quantise import Lattice, Levels
from sfumato.methods.teachers.sketch import Sketch
from sfumato.methods.teachers.votes import Compression, TopKSigns

KINDS = ("topk", "levels", "lattice", "unit", "sketch")


def compression(
    kind: str, k: int, clip: float = 0.0, *, stochastic: bool = True, sparse: bool = True, levels: int = 5
) -> Compression:
    """DataLens' own votes, D2P-Fed's levels as printed or on a lattice in a ball (of length 1), or FetchSGD's sketch.

    >>> compression("levels", 200).bound(784).norm
    56.0
    """
    votes = TopKSigns(k, clip, stochastic, sparse)
    if kind == "topk":
        return votes
    if kind == "levels":
        return Levels(levels, clip)
    if kind == "lattice":
        norm = (clip or 1.0) * math.sqrt(k)  # as long as a clipped vote can be
        return Lattice(norm, norm / 64)
    if kind == "unit":
        return Lattice(1.0, 1 / 64)
    if kind == "sketch":
        return Sketch(votes)
    raise ValueError(f"Expected compress={' or compress='.join(KINDS)}, found compress={kind}.")
