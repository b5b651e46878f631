"""What it costs to run a method in a process of its own: seconds of a step, isolated against ordinary.

    python -m benchmarks.isolate [--steps 24] [--out FILE.json]

Both kinds of run go on side by side and take their steps in turn, one while the other waits, so that whatever else the
machine does meets both. A step lasts from one question to the next. One thread each; random images of 28 x 28 pixels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
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
    seconds: list[float] = field(default_factory=list)

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
        self.turns.give(self.who)
        self.turns.wait(self.who)
        self._began = time.perf_counter()
        return self.inner.release(*given)


def compare(name: str, steps: int) -> dict[str, Any]:
    """Seconds of steps of both kinds, and the ratio of their medians."""
    import numpy as np

    from sfumato import Budget, Run, load
    from sfumato.flow.isolated import Isolated
    from sfumato.methods import find
    from sfumato.privacy.barrier import Barrier, behind
    from sfumato.privacy.odometer import Odometer

    random = np.random.default_rng(0)
    box = load((random.integers(0, 256, (RECORDS, 28, 28), dtype=np.uint8), np.arange(RECORDS) % 10))
    method = find(name)(**METHODS[name], steps=PLANNED)
    plan = method.plan(box.spec, Budget(10.0))
    turns = Turns()
    found: list[list[float]] = [[], []]

    def go(who: int) -> None:
        run = Run(device="cpu", odometer=Odometer(plan), most=steps + WARM + 2)
        paced = Stepwise(behind(Barrier(box, box.spec, run.odometer)), turns, who)
        learner: Any = Isolated(method) if who else method
        learner.learn(Barrier.before(paced), run)
        turns.leave()
        found[who] = paced.seconds[1 + WARM :]

    threads = [threading.Thread(target=go, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = min(map(len, found)) - 1  # the last one may have gone alone
    ordinary, isolated = (statistics.median(seconds[:count]) for seconds in found)
    pairs = [b / a for a, b in zip(found[0][:count], found[1][:count], strict=True)]
    return {
        "settings": METHODS[name],
        "steps": count,
        "ordinary_s": round(ordinary, 4),
        "isolated_s": round(isolated, 4),
        "ratio": round(isolated / ordinary, 4),
        "median_of_pairs": round(statistics.median(pairs), 4),
    }


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--out")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = {name: compare(name, asked.steps) for name in METHODS}
    for name, row in rows.items():
        print(f"{name:<10} {row['ordinary_s']:.3f} s ordinary, {row['isolated_s']:.3f} s isolated: {row['ratio']:.3f}")
    if asked.out:
        command = f"python -m benchmarks.isolate --steps {asked.steps}"
        with open(asked.out, "w") as file:
            json.dump({"command": command, "threads": 1, "rows": rows}, file, indent=1)
            file.write("\n")
    sys.exit(max(row["ratio"] for row in rows.values()) > 1.10)


if __name__ == "__main__":
    main()
