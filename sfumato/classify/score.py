"""How good a private classifier is on real images: the same headline, intervals and page as for synthetic images.

The result describes the real data without noise: it is internal, and is written beside the classifier's folder. Beside
the classifier stands a CNN trained on the real images without privacy, to see what privacy cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import __version__
from sfumato.classify.release import TrainedClassifier, read_config
from sfumato.errors import InputError
from sfumato.evaluate import wording
from sfumato.evaluate.baseline import baseline
from sfumato.evaluate.effort import DEFAULT, Effort, effort_of
from sfumato.evaluate.evaluate import about_data, check_seeds, counted, touched
from sfumato.evaluate.place import check_place, write
from sfumato.evaluate.real import Real, open_real
from sfumato.evaluate.report import FILE, recall_parts, render, write_page
from sfumato.evaluate.results import Report, plain
from sfumato.evaluate.utility import describe, utility
from sfumato.evaluate.work import shortened
from sfumato.release.statement.curve import curve_svg
from sfumato.run.progress import Silent
from sfumato.run.run import pick_device
from sfumato.types import Images

BESIDE = "cnn"  # what is trained on the real images, to compare with


def score(
    folder: str | Path,
    data: Any,
    *,
    test: Any = None,
    seeds: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    groups: Any = None,
    person: str | None = None,
    effort: str = DEFAULT,
    progress: Silent | None = None,
    split: str = "train",
    test_split: str = "test",
    label: str | None = None,
    weights: Mapping[str, str] | None = None,
    ledger: str | Path | None = None,
    command: str = "",
    schedules: Mapping[str, Any] | None = None,
) -> Report:
    """Test the classifier of a folder on the real test images of `data`; see `sfumato.evaluate.evaluate.evaluate`."""
    device = pick_device(device)
    progress = progress or Silent()
    check_seeds(seeds)
    place = check_place(folder, out)
    architecture = read_config(Path(folder))
    done = effort_of(effort, device, architecture.shape)
    trained = TrainedClassifier.load(folder, device, (weights or {}).get(architecture.features))
    real = open_real(
        data,
        Images(np.empty((0, *architecture.shape), np.uint8), np.empty(0, np.int64), architecture.classes),
        test=test,
        split=split,
        test_split=test_split,
        label=label,
        groups=groups,
        person=person,
        ledger=ledger,
        progress=counted(progress),
    )
    sections = _sections(trained, real, done, seeds or done.seeds, device, progress, schedules or {})
    report = Report(sections, real.private, real.accesses, command)
    write(report, place)
    write_page(place / FILE, make_html(report, trained), report.touches_private)
    return report


def _sections(
    trained: TrainedClassifier,
    real: Real,
    done: Effort,
    seeds: int,
    device: str,
    progress: Silent,
    schedules: Mapping[str, Any],
) -> dict[str, Any]:
    name = trained.network.architecture.network
    logits = trained.logits(real.test.pixels)[None]
    right = (logits.argmax(-1) == real.test.labels).mean(1)[:, None]
    row = describe(logits, right, real.test.labels, trained.classes, "fixed", real.groups, real.persons)
    constant = baseline(real.test.labels, trained.classes)
    released = {"tested_on": len(real.test), "baseline": constant, "classifiers": {name: row}}
    beside = utility(
        real.train.pixels,
        real.train.labels,
        real.test.pixels,
        real.test.labels,
        classes=trained.classes,
        classifiers=[BESIDE],
        seeds=seeds,
        device=device,
        groups=real.groups,
        persons=real.persons,
        looks=1,
        schedules=shortened(done) | dict(schedules),
        progress=progress,
    )
    ours = plain(released)
    return {
        "software": f"sfumato {__version__}",
        "settings": {"effort": done.name, "seeds": seeds, "steps": done.steps, "device": device},
        "left_out": [],
        "release": {
            "kind": "classifier",
            "method": trained.statement["reproducibility"]["method"],
            "guarantee": trained.statement["guarantee"],
            "shape": list(trained.network.architecture.shape),
            "classes": list(trained.classes),
        },
        "data": about_data(real),
        "touched": touched(real),
        "headline": wording.headline_of(ours, plain(beside)),
        "utility": {"released": released, "real": beside},
    }


def make_html(report: Report, trained: TrainedClassifier) -> str:
    """The page. It shows no image, loads nothing from anywhere, and runs no script."""
    sections = report.to_json()["sections"]
    statement = trained.statement
    released = sections["utility"]["released"]
    name, row = next(iter(released["classifiers"].items()))
    beside = sections["utility"]["real"]["classifiers"][BESIDE]
    return render(
        "classifier.html.j2",
        s=statement,
        about=sections,
        private=report.touches_private,
        command=report.command,
        found=sections["headline"],
        words=[wording.classifier_words(sections), [statement["plain_words"]["summary"]], sections["touched"]],
        rows=[(f"{name}, private", row), (f"{BESIDE}, without privacy", beside)],
        utility=recall_parts(name, row, beside, list(trained.classes)),
        beside=BESIDE,
        curve=curve_svg(statement["guarantee"]),
    )


def refuse_for_classifier(given: Mapping[str, Any]) -> None:
    """A classifier has no synthetic images: what is measured on them is refused by name."""
    wrong = [name for name in ("features", "attacks", "classifiers") if given.get(name) is not None]
    wrong += ["reference"] if given.get("reference") else []
    wrong += ["protocol"] if given.get("protocol", "fixed") != "fixed" else []
    wrong += ["metrics"] if list(given.get("metrics") or ["utility"]) != ["utility"] else []
    if wrong:
        raise InputError(f"A classifier has no synthetic images to measure so; leave out --{wrong[0]}.")
