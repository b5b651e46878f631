"""Sets that do not fit in memory: peak resident memory, and the cost of one image at two sizes.

    python -m benchmarks.bigdata [--json]

Each size runs in a process of its own: random 64 px colour images are written to an .npz file, loaded, partitioned
among 4000 parts and queried twice through the barrier (everyone, and Poisson batches). One thread.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

SIZES = (20_000, 200_000)
PARTS = 4000
PIXELS = 64
CHUNK = 2000


def write(path: Path, n: int) -> None:
    """An uncompressed .npz, chunk by chunk."""
    import numpy as np
    from numpy.lib import format as npy

    random = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (n, PIXELS, PIXELS, 3)}
            npy.write_array_header_2_0(file, header)
            for _ in range(0, n, CHUNK):
                file.write(random.bytes(CHUNK * PIXELS * PIXELS * 3))
        with archive.open("labels.npy", "w") as file:
            npy.write_array(file, np.arange(n) % 10, allow_pickle=False)


def measure(n: int, place: str) -> dict[str, float]:
    """Seconds of each stage and the peak resident memory of this process."""
    import torch

    from sfumato import Bound, BoundedSum, Budget, Plan, load
    from sfumato.engine.random_fourier import RandomFourier
    from sfumato.ledger.charge import digests_of
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer
    from sfumato.privacy.partitions import part_of
    from sfumato.privacy.plan import crossing
    from sfumato.privacy.samplers import Poisson

    torch.set_num_threads(1)
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = Path(folder) / "big.npz"
        write(path, n)

        def stage(name: str, work):
            start = time.perf_counter()
            result = work()
            times[name] = time.perf_counter() - start
            return result

        with stage("load", lambda: load(path)) as box:
            spec = box.spec
            stage("partition", lambda: part_of((d.tobytes() for d in digests_of(box)), PARTS, bytes(32)))
            phi = RandomFourier(spec.pixels, 64, 0.4, torch.Generator().manual_seed(0))
            query = BoundedSum(phi, Bound(1.0), (64,), by_class=True)
            crossings = {"all": crossing(query.bound, 1.0), "batch": crossing(query.bound, 1.0, Poisson(0.01), 100)}
            barrier = Barrier(box, spec, Odometer(Plan("bigdata", {}, spec, Budget(10.0), crossings)))
            stage("query everyone", lambda: barrier.release("all", query))
            stage("query batches", lambda: [barrier.release("batch", query) for _ in range(100)])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times["all stages"] = sum(times.values())
    return {"images": n, "peak_mb": peak, **{f"{k} us/image": 1e6 * v / n for k, v in times.items()}}


def main() -> None:
    """Run both sizes and print them."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for n in SIZES:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.bigdata", "--one", place, str(n)],
                capture_output=True,
                text=True,
                check=True,
            )
            rows.append(json.loads(done.stdout))
    if "--json" in sys.argv:
        print(json.dumps(rows))
        return
    for key in rows[0]:
        print(f"{key:<26}" + "".join(f"{row[key]:>14,.1f}" for row in rows))


if __name__ == "__main__":
    if "--one" in sys.argv:
        print(json.dumps(measure(int(sys.argv[3]), sys.argv[2])))
    else:
        main()
