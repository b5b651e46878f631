"""Tables 8, 9 and 10 of DataLens: classifiers trained by DP-SGD with TopAgg, beside GM-DP, and scattering features.

    python -m benchmarks.classify --table 8 --data mnist:PATH --seeds 3 --out benchmarks/results/topagg-8.json
    python -m benchmarks.classify --table 8b --data cifar10:PATH --weights FILE.safetensors --out FILE.json
    python -m benchmarks.classify --table ours --data fashion-mnist --out FILE.json

8 and 8b: epsilon 0.05 (0.025) to 1 (8) and infinity, norm-based k and GM-DP; 9: dimension-based k beside them; 10: with
and without compression, at TopAgg's noise, at GM-DP's, and at none. Rows are recipes (`sfumato/recipes/topagg.py`) with
the paper's settings; steps are as many as exact accounting allows. Accuracy is that of the last step; the paper's, for
which each cell was searched, stands beside it as `published`, and its own accounting as `paper_epsilon`, with that of
DPDL. Features of the public images are computed once a process. `--jobs` trains several at a time on one device, which
makes each take longer; `--steps` and `--records` make a short trial of it.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.utility import command
from sfumato import Budget, DataSpec, Run
from sfumato.classify.classifier import Classifier
from sfumato.data import load_public
from sfumato.data.private import PrivateImages, Records
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan
from sfumato.recipes import topagg
from sfumato.types import Images

NOTHING = 1e-9  # noise over sensitivity of a run without noise
WITHOUT = 1.0  # the budget whose steps a run without noise takes, where it has none


@dataclass(frozen=True)
class Cell:
    """One number of a table; `noise` is what the planned noise is multiplied by."""

    name: str
    classifier: Classifier
    epsilon: float
    noise: float = 1.0
    published: float | None = None

    def plan(self, spec: DataSpec, steps: int | None) -> Plan:
        """As planned for the budget; then with another noise or, for a trial, fewer steps."""
        epsilon = WITHOUT if math.isinf(self.epsilon) else self.epsilon
        made = self.classifier.plan(spec, Budget(epsilon))
        taken = min(made.facts["steps"], steps or 10**9)
        sigma = made.facts["sigma"] * self.noise
        if (taken, sigma) == (made.facts["steps"], made.facts["sigma"]):
            return made
        return replace(self.classifier.plan_at(spec, Budget(epsilon), max(sigma, NOTHING), taken), paper=made.paper)


def cells(table: str) -> Iterator[Cell]:
    """What a table holds."""
    if table == "10":
        yield from control()
        return
    names = ("scattering-fashion-mnist-1",) if table == "ours" else topagg.TABLES[table]
    for recipe in (topagg.RECIPES[name] for name in names):
        noise = 0.0 if math.isinf(recipe.epsilon) else 1.0
        yield Cell(recipe.name, Classifier(**recipe.settings), recipe.epsilon, noise, recipe.published)


def control() -> Iterator[Cell]:
    """Table 10: NormTopK at k = 0.8 or no compression, under three kinds of noise."""
    k = 0.8
    for epsilon in (0.1, 1.0):
        sparse, dense = (Classifier(**topagg.topagg("mnist", epsilon, kind).settings) for kind in (k, 1.0))
        found = topagg.CONTROL_PUBLISHED[epsilon]
        for kind, classifier, noise in (
            ("topk-full-noise", sparse, 1 / math.sqrt(k)),
            ("topagg", sparse, 1.0),
            ("topk-sgd", sparse, 0.0),
            ("gm-dp", dense, 1.0),
            ("clipped-sgd", dense, 0.0),
        ):
            yield Cell(f"table10-{kind}-{epsilon:g}", classifier, epsilon, noise, found.get(kind))


class Rows:
    """Features of public images, in the place of pixels; the barrier divides by 255."""

    def __init__(self, features: np.ndarray) -> None:
        self._features = features
        self.shape = (1, 1, features.shape[1])

    def read(self, rows: Any) -> np.ndarray:
        """Some of them."""
        return self._features[rows][:, None, None] * np.float32(255)

    def close(self) -> None:
        """Nothing to free."""


@torch.no_grad()
def features(classifier: Classifier, images: Images, device: str, batch: int = 1024) -> np.ndarray:
    """(n, width) of the network's fixed part."""
    spec = DataSpec("public", len(images), images.pixels.shape[1:], images.classes)
    body = classifier.build(spec).body.to(device)
    pieces = torch.from_numpy(images.pixels).split(batch)
    return torch.cat([body(piece.to(device).float() / 255).float().cpu() for piece in pieces]).numpy()


def boxed(rows: Any, labels: np.ndarray, name: str, classes: tuple[str, ...]) -> PrivateImages:
    """A box for the barrier."""
    spec = DataSpec(name, len(labels), rows.shape, classes, public=True)
    return PrivateImages(spec, Records(rows, labels, None, np.zeros((len(labels), 32), np.uint8)))


class Pixels:
    """Images as they are."""

    def __init__(self, pixels: np.ndarray) -> None:
        self._pixels = pixels
        self.shape = pixels.shape[1:]

    def read(self, rows: Any) -> np.ndarray:
        """Some of them."""
        return self._pixels[rows].copy()

    def close(self) -> None:
        """Nothing to free."""


class Bench:
    """Training and test images of one set, with the fixed features that cells have in common."""

    def __init__(self, data: str, device: str, records: int | None) -> None:
        self.name = data.split(":")[0]
        self.device = Run(device=device).device
        parts = [load_public(data, "a public set", split=split).images for split in ("train", "test")]
        self.train, self.test = (Images(p.pixels[:records], p.labels[:records], p.classes) for p in parts)
        self._made: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def ready(self, classifier: Classifier) -> tuple[Classifier, PrivateImages, torch.Tensor]:
        """The classifier with the box to train on and the test inputs; fixed features are computed once."""
        labels = self.train.labels
        classes = self.train.classes
        if classifier.network not in ("scattering", "features"):
            test = torch.from_numpy(self.test.pixels).float() / 255
            return classifier, boxed(Pixels(self.train.pixels), labels, self.name, classes), test
        if classifier.network not in self._made:
            both = tuple(features(classifier, part, self.device) for part in (self.train, self.test))
            self._made[classifier.network] = both  # type: ignore[assignment]
        train, test = self._made[classifier.network]
        linear = replace(classifier, network="linear", centre=0.0, spread=1.0)
        return linear, boxed(Rows(train), labels, self.name, classes), torch.from_numpy(test)

    def learn(self, cell: Cell, seed: int, steps: int | None) -> tuple[float, float]:
        """Accuracy of one classifier, and how long it took."""
        classifier, box, test = self.ready(cell.classifier)
        start = time.perf_counter()
        barrier = Barrier(box, box.spec, Odometer(cell.plan(box.spec, steps)), device=self.device, microbatch=4096)
        net = classifier.learn(barrier, Run(device=self.device, seed=seed))
        return self._accuracy(net, test), time.perf_counter() - start

    def row(self, cell: Cell, steps: int | None, runs: list[tuple[float, float]]) -> dict[str, Any]:
        """What is kept of a cell, all its seeds together."""
        spec = DataSpec(self.name, len(self.train), self.train.pixels.shape[1:], self.train.classes, public=True)
        classifier = cell.classifier
        plan = cell.plan(spec, steps)
        noisy = cell.noise > 0
        found = [accuracy for accuracy, _ in runs]
        return {
            "name": cell.name,
            "epsilon": cell.epsilon if math.isfinite(cell.epsilon) else None,
            "k": classifier.k,
            "by": classifier.by,
            "network": classifier.network,
            "sigma": plan.facts["sigma"] if noisy else 0.0,
            "steps": plan.facts["steps"],
            "learning_rate": plan.events()[0].rate,
            "clip": classifier.clip,
            "epsilon_spent": plan.epsilon() if noisy else None,
            "paper_epsilon": plan.paper["epsilon"] if noisy else None,
            "dpdl_epsilon": plan.paper["dpdl"] if noisy else None,
            "accuracy": float(np.mean(found)),
            "std": float(np.std(found, ddof=1)) if len(found) > 1 else None,
            "values": found,
            "published": cell.published,
            "seconds": [seconds for _, seconds in runs],
        }

    @torch.no_grad()
    def _accuracy(self, net: torch.nn.Module, test: torch.Tensor) -> float:
        inputs = test if test.dim() == 4 else test[:, None, None]
        guesses = torch.cat([net(piece.to(self.device)).argmax(1).cpu() for piece in inputs.split(1024)])
        return float((guesses == torch.from_numpy(self.test.labels)).double().mean())


@cache
def bench_of(data: str, device: str, records: int | None) -> Bench:
    """The one of this process."""
    return Bench(data, device, records)


def one(data: str, device: str, records: int | None, cell: Cell, seed: int, steps: int | None) -> tuple[float, float]:
    """One seed of a cell, for a process of its own."""
    return bench_of(data, device, records).learn(cell, seed, steps)


def main() -> None:
    """Run the cells of one table and write one JSON file, anew after each cell."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--table", choices=("8", "8b", "9", "10", "ours"), required=True)
    ask.add_argument("--data", required=True)
    ask.add_argument("--seeds", type=int, default=3)
    ask.add_argument("--only", nargs="*", default=[], help="cells by name")
    ask.add_argument("--weights", default="", help="of the public network of table 8b")
    ask.add_argument("--features", default="efficientnet-lite0")
    ask.add_argument("--device", default="auto")
    ask.add_argument("--jobs", type=int, default=1, help="classifiers trained at a time, each in its own process")
    ask.add_argument("--steps", type=int)
    ask.add_argument("--records", type=int)
    ask.add_argument("--out", required=True)
    given = ask.parse_args()
    place = Path(given.out)
    rows = list[dict[str, Any]]()
    chosen = list[Cell]()
    for cell in (c for c in cells(given.table) if not given.only or c.name in given.only):
        public = {"features": given.features, "weights": given.weights}
        changed = replace(cell.classifier, **public) if cell.classifier.network == "features" else cell.classifier
        chosen.append(replace(cell, classifier=changed))
    place.parent.mkdir(parents=True, exist_ok=True)
    where = given.data, given.device, given.records
    bench = bench_of(*where)
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        work = [[pool.submit(one, *where, cell, seed, given.steps) for seed in range(given.seeds)] for cell in chosen]
        for cell, seeds in zip(chosen, work, strict=True):
            rows.append(bench.row(cell, given.steps, [seed.result() for seed in seeds]))
            shown = ("name", "accuracy", "std", "published", "steps", "seconds")
            print(json.dumps({k: rows[-1][k] for k in shown}), flush=True)
            here = platform.processor() or platform.machine()
            what = {
                "command": command("benchmarks.classify"),
                "machine": torch.cuda.get_device_name() if bench.device.startswith("cuda") else here,
                "trial": bool(given.steps or given.records),
            }
            place.write_text(json.dumps({**what, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
