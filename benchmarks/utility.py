"""How useful a method's images are: classifiers trained on synthetic images, tested on real ones.

    python -m benchmarks.utility --method dp-merf --data fashion-mnist mnist:PATH --epsilon 0.2 1 10 --seeds 3 \
        --out benchmarks/results/dp-merf.json
    python -m benchmarks.utility --recipe datalens-code-fashion-mnist-1 --data fashion-mnist --out FILE.json

For every set, epsilon (or recipe, which has its own) and seed a release is made and the CNN of the papers is trained
on it: last step of a fixed schedule, and the best of eight looks at the test set beside it, labelled. One synthesis and
one classifier a seed; `--jobs` runs several at a time on one device, which makes `synthesis_s` longer for each.
`--public` names a set of public images, for methods that take some: its training split.
`--pictures DIR` keeps a grid of images of each first seed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.picture import draw
from sfumato import Budget, Method, Run, synthesize
from sfumato.api import make_method
from sfumato.data import load_public
from sfumato.evaluate import stacked
from sfumato.recipes import find


@cache
def tested(data: str) -> Any:
    """The test images of a set."""
    return load_public(data, "a named public set", split="test").images


def one(
    method: Method,
    data: str,
    budget: Budget,
    seed: int,
    count: int,
    microbatch: int,
    picture: Path | None = None,
    public: str | None = None,
) -> dict[str, Any]:
    """One release and its classifier."""
    test = tested(data)
    shown = load_public(public, "a named public set") if public else None
    start = time.perf_counter()
    run = Run(seed=seed, microbatch=microbatch)
    release = synthesize(method, data, budget, run, count=count, public=shown)
    made = time.perf_counter() - start
    images = release.images
    if picture:
        draw(images, picture, rows=4, scale=1)
    start = time.perf_counter()
    trained = stacked.train(
        "cnn",
        images.pixels,
        images.labels,
        test.pixels,
        test.labels,
        classes=len(images.classes),
        seeds=[seed],
        device=run.device,
    )
    return {
        "fixed": float(trained.accuracies[0, -1]),
        "paper": float(trained.accuracies[0].max()),
        "synthesis_s": made,
        "classifier_s": time.perf_counter() - start,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and spread over seeds."""
    return {
        k: {
            "mean": float(np.mean([r[k] for r in rows])),
            "std": float(np.std([r[k] for r in rows], ddof=1)) if len(rows) > 1 else None,
            "values": [r[k] for r in rows],
        }
        for k in rows[0]
    }


def cells(given: argparse.Namespace) -> list[tuple[dict[str, Any], Method, Budget]]:
    """What to run on each set, with a name, method and budget: every epsilon of a method, or every recipe."""
    changes = dict(pair.split("=", 1) for pair in given.set)
    if not given.recipe:
        return [({}, make_method(given.method, changes), Budget(epsilon)) for epsilon in given.epsilon]
    found = [find(name) for name in given.recipe]
    return [
        ({"recipe": r.name, "published": r.published}, make_method(r.method, r.texts() | changes), r.budget())
        for r in found
    ]


def measure(given: argparse.Namespace, module: str, **more: Any) -> list[dict[str, Any]]:
    """Every cell on every set, printed and written as it comes."""
    results: list[dict[str, Any]] = []
    wanted = [(data, *cell) for data in given.data for cell in cells(given)]
    chances = range(given.first, given.first + given.seeds)

    def picture(data: str, name: str, epsilon: float, seed: int) -> Path | None:
        return given.pictures / f"{name}-{data.split(':')[0]}-{epsilon:g}.png" if given.pictures and not seed else None

    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        work = [
            [
                pool.submit(
                    one,
                    method,
                    data,
                    budget,
                    seed,
                    given.count,
                    given.microbatch,
                    picture(data, called.get("recipe", method.name), budget.epsilon, seed),
                    given.public,
                )
                for seed in chances
            ]
            for data, called, method, budget in wanted
        ]
        for (data, called, _, budget), seeds in zip(wanted, work, strict=True):
            rows = summary([seed.result() for seed in seeds])
            results.append(
                {**more, "data": data.split(":")[0], **called, "epsilon": budget.epsilon, "delta": budget.delta, **rows}
            )
            print(json.dumps(results[-1]), flush=True)
            write(given.out, module, dict(pair.split("=", 1) for pair in given.set), results)
    return results


def command(module: str) -> str:
    """As it was given, without local folders."""
    known = [a.partition(":")[0] + ":PATH" if ":" in a and "/" in a else a.split("/")[-1] for a in sys.argv[1:]]
    return " ".join(["python -m", module, *known])


def write(out: str | None, module: str, settings: dict[str, str], results: list[dict[str, Any]]) -> None:
    """One JSON file, with the command that made it; local paths are left out."""
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    found = {
        "command": command(module),
        "machine": machine,
        "torch": torch.__version__,
        "settings": settings,
        "results": results,
    }
    if out:
        Path(out).write_text(json.dumps(found, indent=1) + "\n")


def options() -> argparse.ArgumentParser:
    """What this and other grids take."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--data", nargs="+", default=["fashion-mnist"])
    ask.add_argument("--seeds", type=int, default=3)
    ask.add_argument("--first", type=int, default=0, help="the first seed")
    ask.add_argument("--count", type=int, default=60_000)
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--jobs", type=int, default=1)
    ask.add_argument("--microbatch", type=int, default=1024)
    ask.add_argument("--pictures", type=Path)
    ask.add_argument("--public", help="a set of public images")
    ask.add_argument("--out")
    return ask


def main() -> None:
    """Run the grid and write one JSON file."""
    ask = options()
    ask.add_argument("--method", default="dp-merf")
    ask.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    ask.add_argument("--recipe", nargs="*", default=[])
    given = ask.parse_args()
    measure(given, "benchmarks.utility")


if __name__ == "__main__":
    main()
