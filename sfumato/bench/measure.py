"""Makes one number of a table: a release by a recipe, judged by the CNN of the papers; or what else a cell asks for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.bench.judge import COUNT, accuracies, drawn, public_images, qualities
from sfumato.bench.table import Cell, Source
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.methods import Method
    from sfumato.types import Images

FEW = {"epochs": "40", "batch": "16", "mu": "4"}  # DPAF for the 64 or 128 records of table XVII


@dataclass(frozen=True)
class Job:
    """One run: what makes the number, on which set, by which seed."""

    cell: Cell
    source: Source
    data: str  # NAME or NAME:PATH
    seed: int = 0
    count: int = COUNT
    device: str = "auto"
    microbatch: int = 1024
    size: int | None = None
    public: str = ""
    stand_in: bool = False
    official: bool = False  # the official evaluation of DataLens, too
    changes: Mapping[str, str] = field(default_factory=dict)  # beyond those of the cell
    pictures: Path | None = None  # a folder for a grid of images of the first seed
    provenance: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """Changes to the recipe, or the settings of the method."""
        there = self.source.on_stand_in if self.stand_in else {}
        return {**self.source.settings, **there, **self.changes}

    @property
    def picture(self) -> Path | None:
        """Where its images are drawn."""
        named = f"{self.source.name.replace(' ', '-')}-{self.data.split(':')[0]}-{self.cell.epsilon or 0:g}.png"
        return self.pictures / named if self.pictures and self.seed == 0 else None


def carry_out(job: Job) -> dict[str, float]:
    """The numbers of one run by protocol, with what they took in seconds."""
    kind = job.cell.metric
    if kind == "seconds":
        return compressed(job)
    if kind == "auc":
        return attacked(job)
    if kind == "classifier":
        return trained(job)
    from sfumato.bench.pictures import draw

    start = time.perf_counter()
    images = images_of(job)
    took = {"synthesis_s": time.perf_counter() - start}
    if job.picture:
        draw(images, job.picture, rows=4, scale=1)
    if kind != "accuracy":
        return took | qualities(images, job.data, seed=job.seed, device=job.device, size=job.size)
    judged = accuracies(
        images,
        job.data,
        seed=job.seed,
        device=job.device,
        size=job.size,
        count=job.count,
        official=job.official,
    )
    return took | judged


def method_of(source: Source, settings: Mapping[str, str]) -> Method:
    """The method of a recipe with changes, or a method by its name."""
    from sfumato.flow.make import make_method
    from sfumato.recipes import find

    if not source.recipe:
        return make_method(source.method, settings)
    recipe = find(source.recipe)
    return make_method(recipe.method, recipe.texts() | dict(settings))


def images_of(job: Job) -> Images:
    """The synthetic images of a job."""
    from sfumato.accounting.budget import Budget

    if job.source.method == "dc-gan":
        return without_privacy(job)
    assert job.cell.epsilon is not None
    method = method_of(job.source, job.settings)
    if job.source.as_printed:
        return printed(job, method)
    return release(
        method,
        job.data,
        Budget(job.cell.epsilon),
        seed=job.seed,
        count=drawn(job.count, job.official),
        device=job.device,
        microbatch=job.microbatch,
        size=job.size,
        public=job.public or job.source.public,
    )


def release(
    method: Method,
    data: str,
    budget: Budget,
    *,
    seed: int,
    count: int = COUNT,
    device: str = "auto",
    microbatch: int = 1024,
    size: int | None = None,
    public: str = "",
) -> Images:
    """The images of one release; `public` names a public set, which is brought to the size of the records."""
    from sfumato.api import synthesize
    from sfumato.data import load, load_public
    from sfumato.run.run import Run

    with load(data, size=size) as box:
        channels, side, _ = box.spec.shape
        named = public.split(":")[0]
        images = load_public(public, f"the public set {named}", size=side, grey=channels == 1) if public else None
        run = Run(device=device, seed=seed, microbatch=microbatch)
        return synthesize(method, box, budget, run, count=count, public=images).images


def printed(job: Job, method: Method) -> Images:
    """Images of DPAF's printed procedure, which is not private: of sets that are declared public alone."""
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.methods.gan.dpaf.printed import printed, split_of
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

    if not isinstance(method, DPAF) or job.cell.epsilon is None:
        raise InputError(f"Expected DPAF with a budget to run as printed, found {job.source.name}.")
    public = public_images(job.data, "train", job.size)
    pixels = public.images.pixels
    spec = DataSpec(job.data.split(":")[0], len(pixels), pixels.shape[1:], public.images.classes, public=True)
    run = Run(device=job.device, seed=job.seed)
    return printed(method, public, spec, run, epsilons=split_of(method, job.cell.epsilon), count=job.count).images


def without_privacy(job: Job) -> Images:
    """Images of the reference DC-GAN; they are as private as the data, and only their accuracy is kept."""
    from sfumato.evaluate.reference import reference
    from sfumato.run.run import pick_device
    from sfumato.types import Images

    real = public_images(job.data, "train", job.size).images
    pixels, labels = reference(
        real.pixels,
        real.labels,
        classes=len(real.classes),
        count=job.count,
        seed=job.seed,
        device=pick_device(job.device),
    )
    return Images(pixels, labels, real.classes)


def trained(job: Job) -> dict[str, float]:
    """Accuracy of a classifier that learns by DP-SGD, at its last step."""
    from sfumato.classify.classifier import Classifier
    from sfumato.flow.train_classifier import train_classifier
    from sfumato.recipes import CLASSIFIERS
    from sfumato.run.run import Run

    if job.source.recipe not in CLASSIFIERS:
        raise InputError(f"{job.source.recipe} has no noise, or not its own: see `python -m benchmarks.classify`.")
    recipe = CLASSIFIERS[job.source.recipe]
    start = time.perf_counter()
    run = Run(device=job.device, seed=job.seed, microbatch=job.microbatch)
    release = train_classifier(Classifier(**recipe.settings), job.data, recipe.budget(), run)
    took = time.perf_counter() - start
    test = public_images(job.data, "test", None).images
    return {"fixed": float((release.predict(test.pixels) == test.labels).mean()), "synthesis_s": took}


def compressed(job: Job) -> dict[str, float]:
    """Seconds of a compression, and how many times TopAgg's."""
    from sfumato.bench.compressions import FIRST, measure
    from sfumato.run.run import pick_device

    what, _, block = job.source.method.partition(": ")
    teachers, images, pixels = map(int, block.split("x"))
    device = pick_device(job.device)
    own, first = (measure(name, (teachers, images, pixels), device)["all"] for name in (what, FIRST))
    return {"seconds": own, "ratio": own / first}


def attacked(job: Job) -> dict[str, float]:
    """AUC of GAN-Leaks against a method that learned from few records."""
    from sfumato.api import synthesize
    from sfumato.evaluate.attacks.recipes import dpaf_table_xvii, private, sgd
    from sfumato.flow.make import make_method
    from sfumato.run.run import pick_device

    device = pick_device(job.device)
    size = int(job.source.method.split()[-2])
    train = sgd(device=device)
    if job.cell.epsilon is not None:
        train = private(synthesize, make_method("dpaf", FEW), job.cell.epsilon)
    images = public_images(job.data, "train", job.size).images
    start = time.perf_counter()
    found = dpaf_table_xvii({"row": train}, images, sizes=(size,), seeds=(job.seed,), device=device)["row"][size]
    return {"auc": found["auc"].mean, "synthesis_s": time.perf_counter() - start}


def summary(runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and spread over seeds.

    >>> summary([{"fixed": 0.5}, {"fixed": 0.7}])["fixed"]["values"]
    [0.5, 0.7]
    """
    import numpy as np

    names = [name for name in runs[0] if all(name in run for run in runs)]
    columns = {name: [float(run[name]) for run in runs] for name in names}
    return {
        name: {
            "mean": float(np.mean(values)),
            "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "values": values,
        }
        for name, values in columns.items()
    }
