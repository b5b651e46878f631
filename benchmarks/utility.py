"""How useful a method's images are: classifiers trained on synthetic images, tested on real ones.

    python -m benchmarks.utility --method dp-merf --data fashion-mnist mnist:PATH --epsilon 0.2 1 10 --seeds 3 \
        --out FILE.json
    python -m benchmarks.utility --recipe datalens-code-fashion-mnist-1 --data fashion-mnist --out FILE.json
    python -m benchmarks.utility --recipe dpaf-tableXI-trans-d --data fairface:PATH --public cifar10:PATH \
        --out FILE.json

For every set, epsilon (or recipe, which has its own unless --epsilon is given) and seed a release is made and the CNN
of the papers is trained on it: last step of a fixed schedule, and the best of eight looks at the test set beside it,
labelled; with `--official` also the evaluation of DataLens' code. One synthesis and one classifier a seed; `--jobs`
runs several at a time on one device, which makes `synthesis_s` longer for each. `--pictures DIR` keeps a grid of images
of each first seed. `sfumato bench NAME --run` makes the cells of a table; a file of this command in
`sfumato/bench/results` fills those that it belongs to.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sfumato import Budget, Method
from sfumato.api import make_method
from sfumato.bench.judge import COUNT, accuracies, drawn
from sfumato.bench.measure import release, summary
from sfumato.bench.pictures import draw
from sfumato.recipes import find


@dataclass(frozen=True)
class Trial:
    """One release and its classifier."""

    called: dict[str, Any]  # what names its row
    method: Method
    data: str
    budget: Budget
    settings: dict[str, str]  # what was changed
    count: int
    microbatch: int
    public: str = ""
    size: int | None = None
    official: bool = False
    picture: Path | None = None

    def run(self, seed: int) -> dict[str, float]:
        """Its accuracies and seconds."""
        start = time.perf_counter()
        images = release(
            self.method,
            self.data,
            self.budget,
            seed=seed,
            count=drawn(self.count, self.official),
            microbatch=self.microbatch,
            size=self.size,
            public=self.public,
        )
        made = time.perf_counter() - start
        if self.picture:
            draw(images, self.picture, rows=4, scale=1)
        found = accuracies(
            images, self.data, seed=seed, device="auto", size=self.size, count=self.count, official=self.official
        )
        return {"fixed": found["fixed"], "paper": found["paper"], "synthesis_s": made, **found}

    def row(self, runs: list[dict[str, float]]) -> dict[str, Any]:
        """What is kept of all its seeds."""
        known = {"data": self.data.split(":")[0], **self.called, "settings": self.settings}
        return {**known, "epsilon": self.budget.epsilon, "delta": self.budget.delta, **summary(runs)}


def trials(given: argparse.Namespace) -> list[Trial]:
    """What to run on each set: every epsilon of a method, or every recipe."""
    if given.recipe:
        wanted = [(name, epsilon) for name in given.recipe for epsilon in given.epsilon or [None]]
        return [trial(given, data, recipe=name, epsilon=e) for data in given.data for name, e in wanted]
    return [trial(given, data, method=given.method, epsilon=e) for data in given.data for e in given.epsilon or [1.0]]


def trial(
    given: argparse.Namespace,
    data: str,
    *,
    recipe: str = "",
    method: str = "",
    epsilon: float | None = None,
    changes: dict[str, str] | None = None,
) -> Trial:
    """One row: a recipe, at its own budget unless another is given, or a method; with changes to its settings."""
    settings = dict(changes or {}) | dict(pair.split("=", 1) for pair in given.set)
    if recipe:
        known = find(recipe)
        made = make_method(known.method, known.texts() | settings)
        budget = known.budget() if epsilon is None else replace(known.budget(), epsilon=epsilon)
        called: dict[str, Any] = {"recipe": known.name, "published": known.published}
    else:
        made = make_method(method, settings)
        budget = Budget(1.0 if epsilon is None else epsilon)
        called = {"method": made.name}
    settings |= {"size": str(given.size)} if given.size else {}
    settings |= {"count": str(given.count)} if given.count != COUNT else {}
    name = f"{called.get('recipe', made.name)}-{data.split(':')[0]}-{budget.epsilon:g}.png"
    return Trial(
        called,
        made,
        data,
        budget,
        settings,
        given.count,
        given.microbatch,
        given.public or "",
        given.size,
        given.official,
        given.pictures / name if given.pictures else None,
    )


def carry_out(wanted: list[Trial], given: argparse.Namespace, module: str) -> list[dict[str, Any]]:
    """Every trial, printed and written as it comes."""
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        seeds = range(given.first, given.first + given.seeds)
        work = [[pool.submit((t if not s else replace(t, picture=None)).run, s) for s in seeds] for t in wanted]
        for one, runs in zip(wanted, work, strict=True):
            results.append(one.row([run.result() for run in runs]))
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
        "date": time.strftime("%Y-%m-%d"),
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
    ask.add_argument("--count", type=int, default=COUNT)
    ask.add_argument("--size", type=int, help="pixels of a side, where they are changed")
    ask.add_argument("--official", action="store_true", help="also the official evaluation of DataLens")
    ask.add_argument("--public", help="a public set, NAME:PATH")
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--epsilon", nargs="+", type=float, default=[])
    ask.add_argument("--jobs", type=int, default=1)
    ask.add_argument("--microbatch", type=int, default=1024)
    ask.add_argument("--pictures", type=Path)
    ask.add_argument("--out")
    return ask


def main() -> None:
    """Run the grid and write one JSON file."""
    ask = options()
    ask.add_argument("--method", default="dp-merf")
    ask.add_argument("--recipe", nargs="*", default=[])
    given = ask.parse_args()
    carry_out(trials(given), given, "benchmarks.utility")


if __name__ == "__main__":
    main()
