"""What the compressions cost: one block of teachers' directions, as in table 6 of DataLens (Wang et al. 2021).

    python -m benchmarks.compressions [--json] [--cuda] [--small]

For each compression: seconds to encode the words of all teachers on all images of one generator step, to sum them, and
to decode the sum. Blocks larger than memory allows go through in chunks of teachers. `--small` takes a hundredth of the
teachers. On a processor one thread is used. The paper's own times, in whole epochs on a T4, are given next to ours;
only their ratios compare.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

Row = dict[str, Any]
# Name, (teachers, images, pixels), k, and seconds an epoch in table 6 for TopAgg, D2P-Fed and FetchSGD.
BLOCKS = (
    ("MNIST", (4000, 15, 784), 200, (338.34, 492.43, 785.34)),
    ("CelebA", (1000, 30, 12288), 700, (1196.60, 3683.22, 2622.40)),
)
CHUNK = {"cpu": 2**23, "cuda": 2**28}  # numbers held at once
REPEATS = {"cpu": 1, "cuda": 5}  # after a first chunk that is not counted; the fastest is taken


def compressions(k: int, d: int) -> Iterator[tuple[str, Any, int | None]]:
    """Name, compression and its column in table 6."""
    from sfumato.methods.teachers.quantise import Lattice, Levels
    from sfumato.methods.teachers.sketch import Sketch
    from sfumato.methods.teachers.votes import TopKSigns

    yield "top-k, stochastic", TopKSigns(k, clip=1e-5), 0
    yield "top-k, by sign", TopKSigns(k, clip=1e-5, stochastic=False), None
    yield "all pixels, stochastic", TopKSigns(k, clip=1e-5, sparse=False), None
    yield "levels", Levels(5, clip=1e-5), None
    yield "levels, rotated", Levels(5, clip=1e-5, rotate=True), 1
    yield "lattice", Lattice(norm=1e-3, spacing=1e-5), None
    yield "sketch", Sketch(TopKSigns(k, clip=1e-5), rows=5, columns=d // 4, keep=k), 2


def seconds(work: Callable[[], Any], device: str) -> float:
    """Fastest of some repeats, after one call to warm up."""
    import torch

    found = []
    for _ in range(REPEATS[device] + 1):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])


def measure(compression: Any, shape: tuple[int, int, int], device: str) -> Row:
    """Seconds for a whole block, of the same chunk again and again."""
    import torch

    teachers, images, d = shape
    chunk = max(1, min(teachers, CHUNK[device] // (images * d)))
    random = torch.Generator(device).manual_seed(0)
    directions = 1e-5 * torch.randn(chunk, images, d, device=device, generator=random)
    rows = compression.encode(directions, random)
    total = rows.sum(0).double()
    steps = {
        "encode": lambda: compression.encode(directions, random),
        "sum": lambda: rows.sum(0),
        "decode": lambda: compression.decode(total, d, teachers),
    }
    times = {name: seconds(work, device) for name, work in steps.items()}
    whole = {n: t * (1 if n == "decode" else teachers / chunk) for n, t in times.items()}
    return {**{n: round(t, 5) for n, t in whole.items()}, "all": round(sum(whole.values()), 5), "chunk": chunk}


def rows(device: str, small: bool) -> list[Row]:
    """All measurements."""
    found = []
    for name, (teachers, images, d), k, paper in BLOCKS:
        shape = (teachers // 100 if small else teachers, images, d)
        for what, compression, column in compressions(k, d):
            found.append({"block": name, "shape": shape, "k": k, "what": what, **measure(compression, shape, device)})
            found[-1]["of top-k"] = round(found[-1]["all"] / next(r["all"] for r in found if r["block"] == name), 2)
            found[-1]["paper"] = None if column is None else round(paper[column] / paper[0], 2)
    return found


def main() -> None:
    """Print a table, or JSON."""
    import torch

    device = "cuda" if "--cuda" in sys.argv else "cpu"
    torch.set_num_threads(1)
    found = rows(device, "--small" in sys.argv)
    where = torch.cuda.get_device_name() if device == "cuda" else "one thread"
    if "--json" in sys.argv:
        print(json.dumps({"device": where, "rows": found}, indent=2))
        return
    print(f"Seconds for one block, on {where}.\n")
    print(f"{'':<32}{'encode':>10}{'sum':>10}{'decode':>10}{'all':>10}{'of top-k':>10}{'in paper':>10}")
    for row in found:
        times = "".join(f"{row[n]:>10.4f}" for n in ("encode", "sum", "decode", "all"))
        ratio = f"{row['of top-k']:>10.2f}" + ("" if row["paper"] is None else f"{row['paper']:>10.2f}")
        print(f"{row['block']:<8}{row['what']:<24}{times}{ratio}")


if __name__ == "__main__":
    main()
