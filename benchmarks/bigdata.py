"""Sets that do not fit in memory: peak resident memory, and the cost of one image at two sizes.

    python -m benchmarks.bigdata [--records 1000000] [--pixels 64] [--channels 1] [--out FILE.json]

Made-up images are written as shards of parquet, and removed at the end. In a process of its own for each size
they are read into the private store, dealt out to 4000 parts, asked for Poisson samples, and released by DP-MERF on the
ordinary road: audit, rehearsal, ledger, measurement, files. One thread. What a run costs whatever its records are
(audit, rehearsal, training, files) is shown apart from what each image costs.

Of memory two numbers are shown. `peak_mb` is VmHWM: all that was ever resident at once, pages of mapped files and
libraries included. `anonymous_mb` is the largest RssAnon that was seen, which no system can take back.

Of time too: on a machine that does other work the seconds that pass say little, so the CPU time of an image is what the
two sizes are compared by, and the seconds that passed stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.utility import command

SMALL = 20_000
PARTS = 4000
SHARD = 10_000  # images in a file
GROUP = 1000  # images in a row group
COARSE = 8  # pixels on a side before they are enlarged: quick to make, and light on the disk
BATCHES = 20
SETTINGS = {"features": "64", "steps": "20", "width": "8", "latent": "4", "batch": "50"}
NAMES = ("VmHWM", "RssAnon", "RssFile")


def write(folder: Path, n: int, pixels: int, channels: int) -> None:
    """Shards with a column of image files and a column of labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    head = f"P{6 if channels == 3 else 5} {pixels} {pixels} 255\n".encode()
    times = pixels // COARSE
    for at, first in enumerate(range(0, n, SHARD)):
        count = min(SHARD, n - first)
        coarse = random.integers(0, 256, (count, COARSE, COARSE, channels), dtype=np.uint8)
        images = (head + one.repeat(times, 0).repeat(times, 1).tobytes() for one in coarse)
        table = pa.table({"image": pa.array(images, pa.binary()), "label": (np.arange(count) + first) % 10})
        pq.write_table(table, folder / f"train-{at:05d}.parquet", row_group_size=GROUP)


class Memory:
    """What this process has resident, looked at many times a second."""

    def __init__(self) -> None:
        self.most: dict[str, float] = dict.fromkeys(NAMES, 0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in NAMES:
                    self.most[name] = max(self.most[name], int(rest.split()[0]) / 1024)


def now() -> np.ndarray:
    """CPU seconds of this process, and seconds that pass."""
    return np.array([time.process_time(), time.perf_counter()])


class Clock:
    """Both kinds of seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, np.ndarray] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = now()
        yield
        self.seconds[name] = now() - began


def measure(n: int, place: str) -> dict[str, Any]:
    """Seconds of each stage and the peak resident memory of this process."""
    import torch

    from sfumato import load

    torch.set_num_threads(1)
    clock = Clock()
    folder = Path(place) / "shards"
    with Memory() as memory:
        with clock.stage("load"):
            box = load(folder)
        shape = "x".join(map(str, box.spec.shape))
        with box:
            _ask(box, clock)
            _release(box, Path(place) / "release", clock)
    each = {stage: 1e6 * clock.seconds[stage] / n for stage in ("load", "partition", "batches", "ledger", "measure")}
    return {
        "images": n,
        "shape": shape,
        "peak_mb": round(memory.most["VmHWM"]),
        "anonymous_mb": round(memory.most["RssAnon"]),
        "mapped_mb": round(memory.most["RssFile"]),
        "cpu_us_per_image": {stage: round(us[0], 1) for stage, us in each.items()},
        "cpu_us_per_image_in_all": round(sum(us[0] for us in each.values()), 1),
        "us_per_image_in_all": round(sum(us[1] for us in each.values()), 1),
        "seconds_whatever_the_records": round(clock.seconds["rest"][1], 1),
    }


def _ask(box: Any, clock: Clock) -> None:
    """Parts, and samples of a hundredth."""
    import torch

    from sfumato import Bound, BoundedSum, Budget, Plan
    from sfumato.engine.random_fourier import RandomFourier
    from sfumato.ledger.charge import digests_of
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer
    from sfumato.privacy.partitions import part_of
    from sfumato.privacy.plan import crossing
    from sfumato.privacy.samplers import Poisson

    with clock.stage("partition"):
        part_of((d.tobytes() for d in digests_of(box)), PARTS, bytes(32))
    phi = RandomFourier(box.spec.pixels, 64, 0.4, torch.Generator().manual_seed(0))
    query = BoundedSum(phi, Bound(1.0), (64,), by_class=True)
    crossings = {"batch": crossing(query.bound, 1.0, Poisson(0.01), BATCHES)}
    barrier = Barrier(box, box.spec, Odometer(Plan("bigdata", {}, box.spec, Budget(10.0), crossings)))
    with clock.stage("batches"):
        for _ in range(BATCHES):
            barrier.release("batch", query)


def _release(box: Any, out: Path, clock: Clock) -> None:
    """By the ordinary road; it says yes when it is asked, and that is when the ledger begins to look at records."""
    from sfumato import Budget, Run
    from sfumato.flow import flow
    from sfumato.flow.approval import Approval
    from sfumato.flow.make import make_method
    from sfumato.flow.synthesize import Synthesis
    from sfumato.run.progress import Silent

    marks: dict[str, np.ndarray] = {"begin": now()}

    class Marking(Silent):
        def start(self, stage: str, total: int | None = None) -> None:
            marks.setdefault(stage, now())

    def confirmed(proposal: Any) -> bool:
        marks["confirmed"] = now()
        return True

    method = make_method("dp-merf", SETTINGS)
    task = Synthesis(method, method.plan(box.spec, Budget(1.0)), count=100, out=out)
    run = Run("cpu", progress=Marking())
    flow.carry_out(task, box, run, ledger=out.with_name("ledger.sqlite"), approval=Approval(ask=confirmed))
    clock.seconds["ledger"] = marks["measuring"] - marks["confirmed"]
    clock.seconds["measure"] = marks["training"] - marks["measuring"]
    clock.seconds["rest"] = marks["confirmed"] - marks["begin"] + now() - marks["training"]


def _apart(n: int, given: argparse.Namespace) -> dict[str, Any]:
    """One size in a process of its own, with a ledger, runs and a store that are removed with the shards."""
    with tempfile.TemporaryDirectory(dir=given.place, prefix="bigdata-") as folder:
        shards = Path(folder) / "shards"
        shards.mkdir()
        write(shards, n, given.pixels, given.channels)
        places = {"SFUMATO_CACHE": f"{folder}/cache", "SFUMATO_RUNS": f"{folder}/runs"}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bigdata", "--one", folder, "--records", str(n)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, **places, "OMP_NUM_THREADS": "1"},
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _told(value: Any) -> str:
    return " ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def main(given: argparse.Namespace) -> None:
    """Run both sizes, print them, and write them where asked."""
    rows = [_apart(n, given) for n in (SMALL, given.records)]
    ratio = rows[1]["cpu_us_per_image_in_all"] / rows[0]["cpu_us_per_image_in_all"]
    for key, value in rows[0].items():
        print(f"{key:<30}{_told(value):>70}{_told(rows[1][key]):>70}")
    print(f"CPU time of an image, larger over smaller: {ratio:.2f}")
    if given.out:
        load = os.getloadavg()[2]
        machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.0f} by other work too, one thread"
        told_of = {"command": command("benchmarks.bigdata"), "machine": machine, "date": time.strftime("%Y-%m-%d")}
        given.out.write_text(json.dumps({**told_of, "results": rows, "ratio": round(ratio, 3)}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--pixels", type=int, default=64, help="a multiple of 8")
    parser.add_argument("--channels", type=int, default=3, choices=(1, 3))
    parser.add_argument("--place", default=tempfile.gettempdir(), help="a disk with 15 kB of room for each image")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", metavar="FOLDER", help="measure what is in this folder")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.records, given.one)))
    else:
        main(given)
