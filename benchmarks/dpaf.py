"""DPAF against other methods, its ablations, images of 128 pixels, the printed procedure, and membership inference.

    python -m benchmarks.dpaf --part main --data fairface:PATH --out FILE.json [--pictures DIR]
    python -m benchmarks.dpaf --part ablations --data fairface:PATH --out FILE.json
    python -m benchmarks.dpaf --part large --data fairface:PATH --out FILE.json
    python -m benchmarks.dpaf --part printed --data fashion-mnist --out FILE.json
    python -m benchmarks.dpaf --part XVII --data fairface:PATH --out FILE.json
    python -m benchmarks.dpaf --part XV --data fairface:PATH --out FILE.json        the recipes of a table of the paper

A row is a release, judged by the CNN of the papers that learns from its images alone (last step of a fixed schedule,
and the best of eight looks at the test set beside it) and by the distance of features where EfficientNet's weights are
there; with seconds and the peak of device memory. The file is written anew after each row, and rows that it has are not
made again. `main` takes three seeds for DPAF and one for the others, at epsilon 1 and 10; all else one seed. `--only`
keeps rows by name (hyphens for spaces), `--seed` and `--epsilon` those of one seed or budget, so that several processes
can share a device; `--set FIELD=VALUE` changes settings of DPAF.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from benchmarks.picture import draw
from benchmarks.utility import command
from sfumato import Budget, Images, Method, Run, load, synthesize
from sfumato.api import make_method
from sfumato.data import load_public
from sfumato.data.private import PrivateImages
from sfumato.errors import InputError
from sfumato.evaluate import stacked
from sfumato.recipes import RECIPES
from sfumato.recipes.dpaf import TABLES

OTHERS = ("datalens", "dp-merf", "pearl", "dp-hp", "ndpdc", "dpgan", "dp-sinkhorn")
OWN = {
    "datalens": "datalens-ours-{}-{}",
    "dpgan": "dpgan-revised-{}-{}",
    "ndpdc": "ndpdc-ours-{}-{}",
    "dp-sinkhorn": "dp-sinkhorn-ours-{}-{}",
}  # recipes in place of the defaults
LONG = {"steps": "2000", "width": "64", "batch": "100"}
LARGE = {"dp-merf": {**LONG, "features": "20000"}, "pearl": {**LONG, "frequencies": "10000"}, "dp-hp": LONG}
ABLATIONS: dict[str, dict[str, str]] = {
    "ours": {},
    "judged one by one": {"together": "no"},
    "one sum for all classes": {"classwise": "no"},
    "the latest sum alone": {"replay": "1"},
    "nothing is matched": {"matching": "0"},
    "one step a sum": {"moves": "1"},
    "conv1 by DP-SGD": {"conv1": "private"},
    "smaller maps": {"layout": ""},
    "not smoothed": {"smooth": "0"},
    "waves": {"activation": "wave"},
}


@dataclass
class Grid:
    """What was asked for, and the rows so far."""

    out: Path
    pictures: Path | None
    data: str
    count: int
    size: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = json.loads(self.out.read_text())["results"] if self.out.exists() else []
        self.test = load_public(self.data, "a named public set", split="test", size=self.size).images

    @property
    def called(self) -> str:
        """The set, without its path."""
        return self.data.split(":")[0]

    @cached_property
    def box(self) -> PrivateImages:
        """The records, read once."""
        return load(self.data, size=self.size)

    def add(self, part: str, name: str, epsilon: float | None, seed: int, make: Any) -> None:
        """Make one row, unless it is there, and write the file."""
        key = {"part": part, "data": self.called, "row": name, "epsilon": epsilon, "seed": seed}
        if any(key.items() <= row.items() for row in self.rows):
            return
        try:
            found = make()
        except InputError as error:  # a method that cannot be planned for this set
            found = {"refused": str(error)}
        self.rows.append(key | found)
        print(json.dumps(self.rows[-1]), flush=True)
        machine = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
        whole = {
            "command": command("benchmarks.dpaf"),
            "machine": machine,
            "torch": torch.__version__,
            "results": self.rows,
        }
        self.out.write_text(json.dumps(whole, indent=1) + "\n")

    def release(self, method: Method, epsilon: float, seed: int) -> dict[str, Any]:
        """A release, judged."""
        self.box  # noqa: B018 (read before the clock starts)
        start = time.perf_counter()
        device = Run().device
        if device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        images = synthesize(method, self.box, Budget(epsilon), Run(seed=seed), count=self.count).images
        took = {"synthesis_s": time.perf_counter() - start}
        peak = {} if device == "cpu" else {"peak_gb": torch.cuda.max_memory_allocated() / 1e9}
        return took | peak | self.judged(images, seed, f"{method.name}-{epsilon:g}-{seed}")

    def judged(self, images: Images, seed: int, name: str) -> dict[str, Any]:
        """Accuracies and distances of synthetic images; a picture of them where asked for."""
        start = time.perf_counter()
        device = Run().device
        trained = stacked.train(
            "cnn",
            images.pixels,
            images.labels,
            self.test.pixels,
            self.test.labels,
            classes=len(images.classes),
            seeds=[seed],
            device=device,
        )
        if self.pictures:
            draw(images, self.pictures / f"{self.called}-{name}.png")
        accuracy = {"fixed": float(trained.accuracies[0, -1]), "paper": float(trained.accuracies[0].max())}
        return accuracy | {"classifier_s": time.perf_counter() - start} | self._distances(images, seed)

    def _distances(self, images: Images, seed: int) -> dict[str, Any]:
        from sfumato.evaluate.fidelity import fidelity

        limit = min(len(self.test), len(images))
        try:
            found = fidelity(self.test.pixels, None, images.pixels[:limit], None, seed=seed, limit=limit)
        except InputError as error:
            return {"fidelity": str(error)}
        return {"fidelity": {name: value.mean for name, value in found.items()}, "fidelity_images": limit}


def ours(data: str, epsilon: float, changes: dict[str, str]) -> Method:
    """DPAF by our recipe for a set."""
    return make_method("dpaf", RECIPES[f"dpaf-ours-{data}-{epsilon:g}"].texts() | changes)


def other(name: str, data: str, epsilon: float) -> Method:
    """Another method, by its recipe for a set, else with the settings of docs/results.md.

    Faces have few recipes; methods without one take that of Fashion-MNIST with a quarter of its steps.
    """
    if name not in OWN:
        return make_method(name, LARGE.get(name, {}))
    sets = ("faces" if name == "datalens" and data == "fairface" else data, "fashion-mnist")
    made = [RECIPES[n] for n in (OWN[name].format(where, f"{epsilon:g}") for where in sets) if n in RECIPES]
    fewer = {} if len(made) == len(sets) else {"steps": str(made[0].settings["steps"] // 4)}
    return make_method(name, made[0].texts() | fewer)


def cells(part: str, data: str, changes: dict[str, str]) -> Iterator[tuple[str, float, int, Method]]:
    """Name, epsilon, seed and method of each row; DPAF first."""
    if part == "main":
        yield from (("dpaf", e, seed, ours(data, e, changes)) for seed in range(3) for e in (1.0, 10.0))
        yield from ((name, e, 0, other(name, data, e)) for name in OTHERS for e in (1.0, 10.0))
    elif part == "ablations":
        yield from ((name, 10.0, 0, ours(data, 10.0, row | changes)) for name, row in ABLATIONS.items())
    elif part == "large":
        yield "dpaf", 10.0, 0, ours(data, 10.0, {"epochs": "5", "layout": "", **changes})
    else:
        found = [RECIPES[name] for name in TABLES[part]]
        yield from ((r.name, r.epsilon, 0, make_method("dpaf", r.texts() | changes)) for r in found)


def paper(changes: dict[str, str]) -> Method:
    """DPAF with the paper's settings; its split, which theorem 6 cannot meet on sets of this size, is in thirds."""
    return make_method("dpaf", RECIPES["dpaf-paper"].texts() | {"layout": "", "split": "33%,34%,33%"} | changes)


def as_printed(grid: Grid, method: Method, epsilon: float) -> dict[str, Any]:
    """The printed procedure on a public set; not private."""
    from sfumato.methods.gan.dpaf.printed import printed, split_of
    from sfumato.types import DataSpec

    public = load_public(grid.data, f"the public set {grid.called}")
    spec = DataSpec(grid.called, len(public.images), public.images.pixels.shape[1:], public.images.classes, public=True)
    start = time.perf_counter()
    made = printed(method, public, spec, Run(), epsilons=split_of(method, epsilon), count=grid.count)
    took = {"stamp": made.stamp, "claim": made.paper["epsilon"], "synthesis_s": time.perf_counter() - start}
    return took | grid.judged(made.images, 0, f"not-private-{epsilon:g}")


def printed_rows(grid: Grid, method: Method, epsilons: Sequence[float]) -> None:
    """The paper's settings as printed, which is not private, and sound."""
    for e in epsilons:
        grid.add("printed", "as printed", e, 0, lambda e=e: as_printed(grid, method, e))
        grid.add("printed", "the same settings, sound", e, 0, lambda e=e: grid.release(method, e, 0))


def attacked(grid: Grid, name: str, train: Any, seeds: int) -> dict[str, Any]:
    """One row of table XVII."""
    from sfumato.evaluate.attacks.recipes import dpaf_table_xvii

    public = load_public(grid.data, f"the public set {grid.called}").images
    start = time.perf_counter()
    table = dpaf_table_xvii({name: train}, public, seeds=range(seeds), device=Run().device)[name]
    return {"auc": {str(size): cell for size, cell in table.items()}, "synthesis_s": time.perf_counter() - start}


def attack_rows(grid: Grid, changes: dict[str, str], seeds: int) -> None:
    """Table XVII: DPAF with few records at four budgets, and a GAN without privacy."""
    from sfumato.evaluate.attacks.recipes import private, sgd

    few = {"epochs": "40", "batch": "16", "mu": "4", **changes}
    grid.add("XVII", "SGD", None, 0, lambda: attacked(grid, "SGD", sgd(device=Run().device), seeds))
    for epsilon in (10.0, 5.0, 1.0, 0.5):
        train = private(synthesize, make_method("dpaf", few), epsilon)
        grid.add(
            "XVII",
            "dpaf",
            epsilon,
            0,
            lambda name=f"epsilon {epsilon:g}", train=train: attacked(grid, name, train, seeds),
        )


def main() -> None:
    """Make the rows of one part."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--part", required=True, choices=("main", "ablations", "large", "printed", "XVII", *TABLES))
    ask.add_argument("--data", default="fashion-mnist")
    ask.add_argument("--count", type=int, default=28_000)
    ask.add_argument("--seeds", type=int, default=5, help="of table XVII")
    ask.add_argument("--only", nargs="*", default=[], help="names of rows, hyphens for spaces")
    ask.add_argument("--seed", type=int, help="rows of this seed alone")
    ask.add_argument("--epsilon", type=float, help="rows of this budget alone")
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--pictures", type=Path)
    ask.add_argument("--out", type=Path, required=True)
    given = ask.parse_args()
    changes = dict(pair.split("=", 1) for pair in given.set)
    grid = Grid(given.out, given.pictures, given.data, given.count, 128 if given.part == "large" else None)
    if given.part == "XVII":
        return attack_rows(grid, changes, given.seeds)
    if given.part == "printed":
        return printed_rows(grid, paper(changes), [given.epsilon] if given.epsilon else [1.0, 10.0])
    for name, epsilon, seed, method in cells(given.part, grid.called, changes):
        named = not given.only or name.replace(" ", "-") in given.only
        if named and given.seed in (None, seed) and given.epsilon in (None, epsilon):
            grid.add(given.part, name, epsilon, seed, lambda m=method, e=epsilon, s=seed: grid.release(m, e, s))
    return None


if __name__ == "__main__":
    main()
