"""DataLens taken apart: what each ingredient does, with the noise and without.

    python -m benchmarks.datalens_parts --data mnist:PATH --epsilon 1 [--teachers 1000] [--only NAME] --out FILE.json
    python -m benchmarks.datalens_parts --data mnist:PATH --quiet --out FILE.json          votes without noise
    python -m benchmarks.datalens_parts --data mnist:PATH --test --recipes NAME --seeds 3 --official --out FILE.json

Each row is the paper's recipe with one thing changed, on a public set. Without `--test` the generator learns from all
but the last 5,000 training images and is judged by those, so that nothing is chosen by test images. `--teachers` takes
fewer teachers, as many records less and a sigma less by the same factor: the noise in a mean vote stays. `--each`
gives each of them more records than the paper's fifteen.

`--quiet` leaves the noise out. What comes of it is not private and never a release: it says what the algorithm can do
at all. The threshold, which is there for the noise, goes too, and `--steps` are given, since no budget ends them.

`--recipes` runs recipes as they are: the noise and the steps are those of their plans, so that what is measured is what
a release would be, though none is made; images are judged in other processes while the next ones are made.

`agreement` is how far the teachers' votes agree, which is private and is told of public sets alone.

Judges: the CNN of the papers (last step of the fixed schedule; best of eight test evaluations) and, with `--official`,
the official code's evaluation of the first seed (best of 600 test epochs on 100,000 images; its last epoch).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from benchmarks.utility import write
from sfumato import Budget, DataSpec, Images, Run, load
from sfumato.api import make_method
from sfumato.bench.pictures import draw
from sfumato.data import load_public
from sfumato.engine.teachers import stacked as engine
from sfumato.engine.teachers.critics import Critics
from sfumato.evaluate import stacked
from sfumato.evaluate.official import IMAGES, official
from sfumato.methods.settings import parse
from sfumato.methods.teachers.datalens import DataLens
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.noise import Noise
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Crossing
from sfumato.recipes import find
from sfumato.recipes.datalens import MENDED
from sfumato.recipes.recipe import Recipe

EVER = 1000.0  # an epsilon that nothing here reaches: nothing is released
EACH = 15  # records of a teacher
COUNT = 60_000  # images for the CNN of the papers
HELD = 5000  # training images that judge trials
NONE = 1e-9  # a threshold for no threshold
SMOOTH: dict[str, Any] = {"generator": "conv", "width": 32}  # in place of the paper's
# A change to the method's settings, or, after "critics.", to its teachers.
ROWS: dict[str, dict[str, Any]] = {
    "base": {},
    "labels of the query": {"fake_labels": "query"},
    "one first weight": {"starts": 1},
    "fifty first weights": {"starts": 50},
    "real and fakes normalised together": {"together": True},
    "no normalisation": {"critic_norm": False},
    "records under other labels are fakes": {"mismatch": True},
    "both of these": {"critic_norm": False, "mismatch": True},
    "mended": MENDED,
    "mended but for the blur": {**MENDED, "blur": 0.0},
    "mended but for the average": {**MENDED, "ema_decay": 0.0},
    "mended but for the warm-up": {**MENDED, "warmup": 8},
    "mended but for the normalisation": {**MENDED, "critic_norm": True},
    "mended but for other labels": {**MENDED, "mismatch": False},
    "mended, one first weight": {**MENDED, "starts": 1},
    "mended, smooth generator": {**MENDED, **SMOOTH},
    "mended, five updates": {**MENDED, "updates": 5},
    "mended, smooth generator, five updates": {**MENDED, **SMOOTH, "updates": 5},
    "no momentum of the teachers": {"critics.beta1": 0.0},
    "slow second moments": {"critics.beta2": 0.9},
    "teachers at 0.0003": {"critic_learning_rate": 3e-4},
    "teachers at 0.0001": {"critic_learning_rate": 1e-4},
    "teachers at 0.003": {"critic_learning_rate": 3e-3},
    "generator at 0.0003": {"learning_rate": 3e-4},
    "generator at 0.003": {"learning_rate": 3e-3},
    "order of Algorithm 1": {"order": "paper"},
    "uniform latents": {"latent_distribution": "uniform"},
    "no warm-up": {"warmup": 0},
    "warm-up of 30": {"warmup": 28},
    "warm-up of 100": {"warmup": 98},
    "one update a step": {"updates": 1},
    "five updates a step": {"updates": 5},
    "no threshold": {"threshold": NONE},
    "averaged weights": {"ema_decay": 0.9},
    "group norm generator": SMOOTH,
    "no clipping": {"clip": 0.0},
}


class Quiet(Noise):
    """No noise at all: for public sets, and never for a release."""

    def discrete_gaussian(self, sigma: float, shape: tuple[int, ...]) -> Any:
        """Zeros."""
        return np.zeros(shape, dtype=np.int64)

    def gaussian(self, shape: tuple[int, ...], sigma: float, device: Any = "cpu") -> Tensor:
        """Zeros."""
        return torch.zeros(shape, dtype=torch.float64, device=device)


class Trial(DataLens):
    """DataLens with as many steps as are asked for at a given sigma, whatever that would cost, on public images."""

    of_critics: ClassVar[dict[str, Any]] = {}

    def critics(self, spec: DataSpec) -> Critics:
        return replace(super().critics(spec), **self.of_critics)

    def calibrated(self, spec: DataSpec, budget: Budget, taken: Mapping[str, Crossing]) -> Mapping[str, Crossing]:
        return self.crossings(spec, self.sigma / self.compression.bound(spec.pixels).norm)


def trial(recipe: Recipe, row: dict[str, Any], given: argparse.Namespace) -> Trial:
    """The recipe with a row's changes; fewer teachers, or no threshold without noise, as given."""
    method = make_method("datalens", recipe.texts() | dict(pair.split("=", 1) for pair in given.set))
    steps = method.plan(recipe.spec(), recipe.budget()).facts["steps"]
    few = (
        {"teachers": given.teachers, "sigma": method.sigma * given.teachers / method.teachers} if given.teachers else {}
    )
    quiet = {"threshold": NONE} if given.quiet else {}
    changed = {k: v for k, v in row.items() if "." not in k and k != "together"}
    settings = {f.name: getattr(method, f.name) for f in fields(method)}
    made = Trial(**{**settings, "steps": given.steps or steps, **few, **quiet, **changed})
    object.__setattr__(made, "of_critics", {k.partition(".")[2]: v for k, v in row.items() if "." in k})
    return made


def learned(method: Trial, images: Images, run: Run, quiet: bool, count: int) -> tuple[Images, float]:
    """Images of a generator that learns from public images behind a barrier of our own, and how far teachers agreed.

    Agreement is the root mean square over pixels of the mean vote, less what chance alone gives, over all queries.
    """
    box = load(images)
    odometer = Odometer(method.plan(box.spec, Budget(EVER)))
    run = replace(run, odometer=odometer)
    squares = []

    def heard(name: str, total: Tensor) -> None:
        mean = (total / method.teachers).square().mean()
        squares.append(float(mean - (method.topk / box.spec.pixels - mean) / method.teachers))

    noise = Quiet() if quiet else None
    barrier = Barrier(box, box.spec, odometer, noise=noise, device=run.device, heard=heard)
    net = method.learn(barrier, run)
    return net.sample(count, seed=run.seed), max(0.0, float(np.mean(squares))) ** 0.5


@contextmanager
def normalised_together(asked: bool) -> Iterator[None]:
    """While it lasts, batch normalisation takes real and fake images for one batch."""
    before = engine.Pass._means
    if asked:
        engine.Pass._means = lambda self, z: z.mean((1, 2), keepdim=True).expand(-1, z.shape[1], -1, -1)
        engine._fused.cache_clear()
        torch._dynamo.reset()
    try:
        yield
    finally:
        engine.Pass._means = before
        if asked:
            engine._fused.cache_clear()
            torch._dynamo.reset()


def judged(images: Images, test: Images, seed: int, device: str, also_official: bool) -> dict[str, Any]:
    """Accuracies of classifiers that learn from the images alone."""
    given = test.pixels, test.labels
    classes = len(images.classes)
    trained = stacked.train(
        "cnn", images.pixels[:60_000], images.labels[:60_000], *given, classes=classes, seeds=[seed], device=device
    )
    found = {"fixed": float(trained.accuracies[0, -1]), "paper": float(trained.accuracies[0].max())}
    if also_official:
        epochs = official(images.pixels, images.labels, *given, classes=classes, seed=seed, device=device)
        found |= {"official": float(epochs.max()), "official_last": float(epochs[-1])}
    return found


def split(data: str, test: bool, records: int | None) -> tuple[Images, Images]:
    """Images to learn from and images to judge by."""
    whole = load_public(data, "a named public set").images
    order = np.random.default_rng(0).permutation(len(whole))
    if test:
        held = load_public(data, "a named public set", split="test").images
    else:
        held = Images(whole.pixels[order[-HELD:]], whole.labels[order[-HELD:]], whole.classes)
        order = order[:-HELD]
    kept = np.sort(order[: records or len(order)])
    return Images(whole.pixels[kept], whole.labels[kept], whole.classes), held


def options() -> argparse.Namespace:
    """What was asked for."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", required=True)
    ask.add_argument("--epsilon", type=float, default=1.0, choices=(1.0, 10.0))
    ask.add_argument("--kind", default="paper", choices=("paper", "code"))
    ask.add_argument("--teachers", type=int)
    ask.add_argument("--each", type=int, default=EACH, help="records of each of these teachers")
    ask.add_argument("--quiet", action="store_true")
    ask.add_argument("--steps", type=int)
    ask.add_argument("--test", action="store_true", help="learn from all training images, judge by test images")
    ask.add_argument("--official", action="store_true")
    ask.add_argument("--only", nargs="*", default=[], help="names of rows, hyphens for spaces")
    ask.add_argument("--recipes", nargs="*", default=[], help="recipes as they are, in place of rows")
    ask.add_argument("--also", nargs="*", default=[], help="further rows, each FIELD=VALUE,FIELD=VALUE")
    ask.add_argument("--set", nargs="*", default=[], help="FIELD=VALUE of every row")
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--count", type=int, default=COUNT, help="images that the CNN learns from")
    ask.add_argument("--judges", type=int, default=2)
    ask.add_argument("--pictures", type=Path)
    ask.add_argument("--out", required=True)
    return ask.parse_args()


def chosen(only: list[str], also: list[str]) -> dict[str, dict[str, Any]]:
    """The rows by name, all of them where none is named; then those given by their settings."""
    named = {title: row for title, row in ROWS.items() if title.replace(" ", "-") in only or not (only or also)}
    texts = {text: dict(pair.split("=", 1) for pair in text.split(",")) for text in also}
    given = {text: {k: v for k, v in row.items() if "." not in k} for text, row in texts.items()}
    parsed = {text: parse(DataLens, row) for text, row in given.items()}
    unlike = {text: {k: v == "True" for k, v in row.items() if "." in k} for text, row in texts.items()}
    return named | {text: parsed[text] | unlike[text] for text in texts}


class Rows:
    """Rows whose images are judged in other processes while the next ones are made."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.name = given.data.split(":")[0]
        self.images, self.held = split(given.data, given.test, given.teachers and given.each * given.teachers)
        self.results: list[dict[str, Any]] = []
        self.waiting: list[tuple[dict[str, Any], Future[dict[str, Any]]]] = []

    def recipe(self, title: str) -> Recipe:
        """The recipe of this name, or the one that is taken apart."""
        return find(title if title in self.given.recipes else self.base)

    @property
    def base(self) -> str:
        """The name of the recipe that is taken apart."""
        return f"datalens-{self.given.kind}-{self.name}-{self.given.epsilon:g}"

    def make(self, title: str, row: dict[str, Any], seed: int, pool: ProcessPoolExecutor) -> None:
        """One row: its images are made here and judged elsewhere."""
        given = self.given
        start = time.perf_counter()
        run = Run(seed=seed)
        recipe = self.recipe(title)
        method = trial(recipe, row, given)
        official = given.official and not seed
        with normalised_together(bool(row.get("together"))):
            made, agreement = learned(method, self.images, run, given.quiet, IMAGES if official else given.count)
        as_it_is = {"recipe": title, "published": recipe.published} if title in given.recipes else {"row": title}
        about = {
            **as_it_is,
            "data": self.name,
            "epsilon": None if given.quiet else recipe.epsilon,
            "delta": recipe.delta,
            "seed": seed,
            "teachers": method.teachers,
            "records": len(self.images),
            "steps": method.steps,
            "judge": "test" if given.test else "held out",
            "agreement": agreement if method.compress == "topk" else None,
            "synthesis_s": time.perf_counter() - start,
        }
        if given.pictures and not seed:
            called = f"{self.name}-{'quiet' if given.quiet else f'{recipe.epsilon:g}'}"
            draw(made, given.pictures / f"datalens-{title.replace(' ', '-')}-{called}.png")
        self.waiting.append((about, pool.submit(judged, made, self.held, seed, run.device, official)))

    def collect(self, wait: bool = False) -> None:
        """Write down what the judges have said so far."""
        for row, future in list(self.waiting):
            if wait or future.done():
                self.results.append(row | future.result())
                self.waiting.remove((row, future))
                print(json.dumps(self.results[-1]), flush=True)
                settings = dict(pair.split("=", 1) for pair in self.given.set)
                write(self.given.out, "benchmarks.datalens_parts", settings, self.results)


def main() -> None:
    """Make the rows that are asked for, and write one file."""
    given = options()
    rows = Rows(given)
    with ProcessPoolExecutor(given.judges, multiprocessing.get_context("spawn")) as pool:
        for title, row in {name: {} for name in given.recipes}.items() or chosen(given.only, given.also).items():
            for seed in range(given.seeds):
                rows.make(title, row, seed, pool)
                rows.collect()
        rows.collect(wait=True)


if __name__ == "__main__":
    main()
