"""What it costs to run a method in a process of its own: seconds of a step, isolated against ordinary.

    python -m benchmarks.isolate [--steps 24] [--out FILE.json]
    python -m benchmarks.isolate --wire

Both kinds of run go on side by side and take their steps in turn, one while the other waits, so that whatever else the
machine does meets both. A step lasts from one question to the next. One thread each; random images of 28 x 28 pixels.
Beside the seconds of the clock, of which others on the machine have their share, stand those of the processor: of this
process and, where a method is isolated, of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

RECORDS = 4000
PLANNED = 1000  # steps, of which the first are taken: previews are as rare as in a run
WARM = 3  # steps that are not counted
METHODS: dict[str, dict[str, Any]] = {
    "dpdm": {"batch": 64, "noise_multiplicity": 2, "width": 16, "depth": 2},
    "datalens": {"teachers": 100, "batch": 16, "warmup": 1, "critic_hidden": 64},
}


class Turns:
    """Two runs of which one goes at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._whose = 0
        self._alone = False

    def wait(self, who: int) -> None:
        """Until it is this one's turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._alone or self._whose == who)

    def give(self, who: int) -> None:
        """The turn to the other."""
        with self._changed:
            self._whose = 1 - who
            self._changed.notify_all()

    def leave(self) -> None:
        """One is done; the other need not wait any more."""
        with self._changed:
            self._alone = True
            self._changed.notify_all()


@dataclass
class Stepwise:
    """Behind a barrier: hands the turn over at each question, and notes how long each step took."""

    inner: Any
    turns: Turns
    who: int
    busy: Callable[[], float]  # seconds of the processor so far
    seconds: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spec = self.inner.spec
        self.odometer = self.inner.odometer
        self.noise = self.inner.noise
        self._began = time.perf_counter()

    def hold(self, *given: Any) -> Any:
        """As it is."""
        return self.inner.hold(*given)

    def train(self, *given: Any) -> None:
        """As it is."""
        self.inner.train(*given)

    def release(self, *given: Any) -> Any:
        """The end of one step and the beginning of the next."""
        self.seconds.append(time.perf_counter() - self._began)
        self.work.append(self.busy())
        self.turns.give(self.who)
        self.turns.wait(self.who)
        self._began = time.perf_counter()
        return self.inner.release(*given)


def of_process(number: int) -> float:
    """Seconds of the processor that another process has used; Linux tells."""
    counts = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(counts[11]) + int(counts[12])) / os.sysconf("SC_CLK_TCK")


def compare(name: str, steps: int) -> dict[str, Any]:
    """Seconds of steps of both kinds, and the ratio of their medians."""
    import numpy as np

    from sfumato import Budget, Run, load
    from sfumato.flow.isolated import Isolated, spawned
    from sfumato.methods import find
    from sfumato.privacy.barrier import Barrier, behind
    from sfumato.privacy.odometer import Odometer

    random = np.random.default_rng(0)
    box = load((random.integers(0, 256, (RECORDS, 28, 28), dtype=np.uint8), np.arange(RECORDS) % 10))
    method = find(name)(**METHODS[name], steps=PLANNED)
    plan = method.plan(box.spec, Budget(10.0))
    turns = Turns()
    found: list[list[float]] = [[], []]
    work: list[list[float]] = [[], []]

    def go(who: int) -> None:
        run = Run(device="cpu", odometer=Odometer(plan), most=steps + WARM + 2)
        started: list[Any] = []

        def start(theirs: Any) -> Any:
            started.append(spawned(theirs))
            return started[0]

        def busy() -> float:
            return time.thread_time() + sum(of_process(process.pid) for process in started)

        paced = Stepwise(behind(Barrier(box, box.spec, run.odometer)), turns, who, busy)
        learner: Any = Isolated(method, start=start) if who else method
        learner.learn(Barrier.before(paced), run)
        turns.leave()
        found[who] = paced.seconds[1 + WARM :]
        work[who] = paced.work[WARM:]

    threads = [threading.Thread(target=go, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = min(map(len, found)) - 1  # the last one may have gone alone
    ordinary, isolated = (statistics.median(seconds[:count]) for seconds in found)
    cpu = [(seconds[count] - seconds[0]) / count for seconds in work]
    pairs = [b / a for a, b in zip(found[0][:count], found[1][:count], strict=True)]
    return {
        "settings": METHODS[name],
        "steps": count,
        "ordinary_s": round(ordinary, 4),
        "isolated_s": round(isolated, 4),
        "ratio": round(isolated / ordinary, 4),
        "median_of_pairs": round(statistics.median(pairs), 4),
        "cpu_ordinary_s": round(cpu[0], 4),
        "cpu_isolated_s": round(cpu[1], 4),
        "cpu_ratio": round(cpu[1] / cpu[0], 4),
    }


def wire() -> dict[str, float]:
    """Milliseconds of the processor that it takes to write and to read a question of DPDM at its default size."""
    from sfumato import DataSpec, Run
    from sfumato.engine.generator_dpsgd import seeded
    from sfumato.methods import find
    from sfumato.remote.wire import Kept, decode, encode

    method = find("dpdm")()
    spec = DataSpec("made up", RECORDS, (1, 28, 28), tuple("0123456789"))
    net = seeded(Run(device="cpu"), lambda: method.denoiser(spec, None))
    query = method.dpsgd(spec).query(net, method.loss)
    kept = Kept()
    times = []
    for _ in range(20):
        marks = [time.process_time()]
        data = encode(("gradient", query))
        marks.append(time.process_time())
        decode(data, kept=kept)
        marks.append(time.process_time())
        times.append([b - a for a, b in pairwise(marks)])
    written, read = (1000 * statistics.median(each) for each in zip(*times, strict=True))
    return {"weights": query.shape[0], "megabytes": len(data) / 1e6, "written_ms": written, "read_ms": read}


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--out")
    parser.add_argument("--wire", action="store_true", help="the way of a question alone")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.wire:
        print(json.dumps(wire()))
        return
    rows = {name: compare(name, asked.steps) for name in METHODS}
    for name, row in rows.items():
        print(f"{name:<10} {row['ordinary_s']:.3f} s ordinary, {row['isolated_s']:.3f} s isolated: {row['ratio']:.3f}")
        print(f"{'processor':<10} {row['cpu_ordinary_s']:.3f} s, {row['cpu_isolated_s']:.3f} s: {row['cpu_ratio']:.3f}")
    if asked.out:
        command = f"python -m benchmarks.isolate --steps {asked.steps}"
        with open(asked.out, "w") as file:
            json.dump({"command": command, "threads": 1, "load": os.getloadavg(), "rows": rows}, file, indent=1)
            file.write("\n")
    sys.exit(max(row["ratio"] for row in rows.values()) > 1.10)


if __name__ == "__main__":
    main()
