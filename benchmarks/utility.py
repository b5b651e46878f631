"""How useful a method's images are: classifiers trained on synthetic images, tested on real ones.

    python -m benchmarks.utility --method dp-merf --data fashion-mnist mnist:PATH --epsilon 0.2 1 10 --seeds 3 \
        --out benchmarks/results/dp-merf.json

For every set, epsilon and seed a release is made and the CNN of the papers is trained on it: last step of a fixed
schedule, and the best of eight looks at the test set beside it, labelled. One synthesis and one classifier a seed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sfumato import Budget, Run, synthesize
from sfumato.api import make_method
from sfumato.data import load_public
from sfumato.evaluate import stacked


def one(
    method: str, data: str, epsilon: float, seed: int, count: int, settings: dict[str, str], test: Any
) -> dict[str, Any]:
    """One release and its classifier."""
    start = time.perf_counter()
    release = synthesize(make_method(method, settings), data, Budget(epsilon), Run(seed=seed), count=count)
    made = time.perf_counter() - start
    images, device = release.images, Run().device
    start = time.perf_counter()
    trained = stacked.train("cnn", images.pixels, images.labels, test.pixels, test.labels, classes=len(images.classes),
                            seeds=[seed], device=device)  # fmt: skip
    return {
        "fixed": float(trained.accuracies[0, -1]),
        "paper": float(trained.accuracies[0].max()),
        "synthesis_s": made,
        "classifier_s": time.perf_counter() - start,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and spread over seeds."""
    return {k: {"mean": float(np.mean([r[k] for r in rows])), "std": float(np.std([r[k] for r in rows], ddof=1)) if
                len(rows) > 1 else None, "values": [r[k] for r in rows]} for k in rows[0]}  # fmt: skip


def main() -> None:
    """Run the grid and write one JSON file."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--method", default="dp-merf")
    ask.add_argument("--data", nargs="+", default=["fashion-mnist"])
    ask.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    ask.add_argument("--seeds", type=int, default=3)
    ask.add_argument("--count", type=int, default=60_000)
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--out")
    given = ask.parse_args()
    settings = dict(pair.split("=", 1) for pair in given.set)
    results = []
    for data in given.data:
        test = load_public(data, "a named public set", split="test").images
        for epsilon in given.epsilon:
            rows = [one(given.method, data, epsilon, s, given.count, settings, test) for s in range(given.seeds)]
            results.append({"data": data.split(":")[0], "epsilon": epsilon, "delta": 1e-5, **summary(rows)})
            print(json.dumps(results[-1]), flush=True)
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    command = "python -m benchmarks.utility " + " ".join(
        a.split("/")[-1] if "/" in a and ":" not in a else a for a in sys.argv[1:]
    )
    found = {
        "command": command,
        "machine": machine,
        "torch": torch.__version__,
        "settings": settings,
        "results": results,
    }
    if given.out:
        Path(given.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
