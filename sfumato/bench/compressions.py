"""What the compressions of DataLens cost: the votes of one generator step, encoded, summed and decoded (its table 6).

Directions are made up: what a compression costs does not depend on them. Blocks larger than memory allows go through in
chunks of teachers. The paper's times are of whole epochs on a T4; only ratios compare.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Shape = tuple[int, int, int]
BLOCKS: dict[str, Shape] = {"MNIST": (4000, 15, 784), "CelebA": (1000, 30, 12288)}  # teachers, images, pixels
TOPK = {784: 200, 12288: 700}
FIRST = "top-k, stochastic"  # TopAgg's, which the others are compared with
COMPRESSIONS = (
    FIRST,
    "top-k, by sign",
    "all pixels, stochastic",
    "levels",
    "levels, rotated",
    "lattice",
    "sketch",
)
CHUNK = {"cpu": 2**23, "cuda": 2**28}  # numbers held at once
REPEATS = {"cpu": 1, "cuda": 5}  # after a first chunk that is not counted; the fastest is taken


def block_name(shape: Shape) -> str:
    """As results name it.

    >>> block_name(BLOCKS["MNIST"])
    '4000x15x784'
    """
    return "x".join(map(str, shape))


def compression(what: str, d: int) -> Any:
    """A compression by its name, with the settings of the official code where it has them."""
    from sfumato.methods.teachers.quantise import Lattice, Levels
    from sfumato.methods.teachers.sketch import Sketch
    from sfumato.methods.teachers.votes import TopKSigns

    k = TOPK[d]
    made: dict[str, Callable[[], Any]] = {
        FIRST: lambda: TopKSigns(k, clip=1e-5),
        "top-k, by sign": lambda: TopKSigns(k, clip=1e-5, stochastic=False),
        "all pixels, stochastic": lambda: TopKSigns(k, clip=1e-5, sparse=False),
        "levels": lambda: Levels(5, clip=1e-5),
        "levels, rotated": lambda: Levels(5, clip=1e-5, rotate=True),
        "lattice": lambda: Lattice(norm=1e-3, spacing=1e-5),
        "sketch": lambda: Sketch(TopKSigns(k, clip=1e-5), rows=5, columns=d // 4, keep=k),
    }
    return made[what]()


def seconds(work: Callable[[], Any], device: str) -> float:
    """Fastest of some repeats, after one call to warm up."""
    import torch

    taken = []
    for _ in range(REPEATS[device] + 1):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def measure(what: str, shape: Shape, device: str, share: float = 1.0) -> dict[str, float]:
    """Seconds for a block, of the same chunk again and again; `share` of its teachers are gone through."""
    import torch

    teachers, images, d = max(1, round(shape[0] * share)), *shape[1:]
    chunk = max(1, min(teachers, CHUNK[device] // (images * d)))
    random = torch.Generator(device).manual_seed(0)
    directions = 1e-5 * torch.randn(chunk, images, d, device=device, generator=random)
    made = compression(what, d)
    rows = made.encode(directions, random)
    total = rows.sum(0).double()
    times = {
        "encode": seconds(lambda: made.encode(directions, random), device) * teachers / chunk,
        "sum": seconds(lambda: rows.sum(0), device) * teachers / chunk,
        "decode": seconds(lambda: made.decode(total, d, teachers), device),
    }
    return times | {"all": sum(times.values())}
