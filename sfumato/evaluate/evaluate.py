"""The whole evaluation of a release against real data: utility, fidelity, attacks, in one report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import __version__
from sfumato.errors import InputError
from sfumato.evaluate.effort import DEFAULT, EFFORTS, Effort, effort_of, left_out
from sfumato.evaluate.place import check_place, write
from sfumato.evaluate.real import Real, open_real
from sfumato.evaluate.results import Report, plain
from sfumato.evaluate.utility import LOOKS, PROTOCOLS, check_classifiers
from sfumato.evaluate.wording import headline
from sfumato.evaluate.work import Work
from sfumato.run.progress import Silent

if TYPE_CHECKING:
    from sfumato.release import Release

METRICS = ("utility", "fidelity", "attacks")
MOST_SEEDS = 50


def evaluate(
    release_folder: str | Path,
    data: Any,
    *,
    test: Any = None,
    protocol: str = "fixed",
    classifiers: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    seeds: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    groups: Any = None,
    person: str | None = None,
    effort: str = DEFAULT,
    reference: bool = False,
    progress: Silent | None = None,
    split: str = "train",
    test_split: str = "test",
    label: str | None = None,
    features: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    weights: Mapping[str, str] | None = None,
    ledger: str | Path | None = None,
    command: str = "",
    schedules: Mapping[str, Any] | None = None,
) -> Report:
    """Compare the synthetic images of a release with the real `data` it was made from.

    The result describes the real data without any noise: it is internal. It is written to `out`, by default the folder
    RELEASE-evaluation beside the release; nothing is ever written inside the release. `groups` names subgroups of
    the test images, as a column of their metadata or as one name each; `person` the column that says who is shown, so
    that intervals count persons. `effort` is quick, default or full: what it leaves out is in the section `left_out`;
    what is named here is done in any case. `reference` adds the row of a DC-GAN trained without privacy. `schedules`
    replaces the fixed schedules, for tests.
    """
    from sfumato.evaluate.report import write_html
    from sfumato.release import Release
    from sfumato.run.run import pick_device

    device = pick_device(device)
    progress = progress or Silent()
    named = _named(classifiers, metrics, seeds, features, attacks)
    _check(protocol, named, effort)
    place = check_place(release_folder, out)
    release = Release.load(release_folder)
    if len(release.images) < 2:
        raise InputError(f"{release_folder} has fewer than two images, which teach a classifier nothing.")
    shape = release.images.pixels.shape[1:]
    done = _done(effort_of(effort, device, shape), named, protocol)
    real = open_real(
        data,
        release.images,
        test=test,
        split=split,
        test_split=test_split,
        label=label,
        groups=groups,
        person=person,
        ledger=ledger,
        progress=counted(progress),
    )
    work = Work(release, real, done, protocol, device, progress, schedules or {}, named=features is not None)
    sections = work.sections(reference, weights)
    about: dict[str, Any] = {
        "software": f"sfumato {__version__}",
        "settings": _settings(done, protocol, device, reference),
        "left_out": left_out(done, device, shape, list(named)),
        "release": _about_release(release),
        "data": about_data(real),
        "touched": touched(real),
    }
    about["headline"] = headline(plain(about | sections))
    report = Report(about | sections | {"seconds": work.seconds}, real.private, real.accesses, command)
    write(report, place)
    write_html(report, release, real, place)
    return report


def _named(
    classifiers: Sequence[str] | None,
    metrics: Sequence[str] | None,
    seeds: int | None,
    features: Sequence[str] | None,
    attacks: Sequence[str] | None,
) -> dict[str, Any]:
    """What was asked for by name, and is done whatever the effort."""
    named: dict[str, Any] = {}
    if classifiers is not None:
        named["classifiers"] = check_classifiers(classifiers)
    if metrics is not None:
        named["metrics"] = check_metrics(metrics)
    if seeds is not None:
        named["seeds"] = seeds
    for name, asked in (("features", features), ("attacks", attacks)):
        if asked is not None:
            named[name] = tuple(asked)
    return named


def _done(effort: Effort, named: dict[str, Any], protocol: str) -> Effort:
    """The effort with what was asked for by name; a named space or attack brings its section with it."""
    looks = LOOKS if protocol == "paper" else effort.looks
    sections = [of for name, of in (("features", "fidelity"), ("attacks", "attacks")) if name in named]
    metrics = tuple(dict.fromkeys((*effort.metrics, *sections)))
    changes: dict[str, Any] = {"metrics": metrics, "looks": looks} | named
    return replace(effort, **changes)


def _settings(done: Effort, protocol: str, device: str, reference: bool) -> dict[str, Any]:
    return {
        "effort": done.name,
        "protocol": protocol,
        "classifiers": list(done.classifiers),
        "metrics": list(done.metrics),
        "seeds": done.seeds,
        "steps": done.steps,
        "device": device,
        "reference": reference,
    }


def check_metrics(metrics: Sequence[str] | None) -> tuple[str, ...]:
    """The sections asked for, all unless named."""
    for name in metrics or ():
        if name not in METRICS:
            raise InputError(f"Expected --metrics from {', '.join(METRICS)}, found '{name}'.")
    return tuple(dict.fromkeys(metrics)) if metrics else METRICS


def _check(protocol: str, named: Mapping[str, Any], effort: str) -> None:
    if protocol not in PROTOCOLS:
        raise InputError(f"Expected --protocol as {' or '.join(PROTOCOLS)}, found '{protocol}'.")
    check_seeds(named.get("seeds"))
    if effort not in EFFORTS:
        raise InputError(f"Expected an effort of {', '.join(EFFORTS)}, found '{effort}'.")


def check_seeds(seeds: int | None) -> None:
    """Refuse a number of trainings that nobody means."""
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"Expected --seeds from 1 to {MOST_SEEDS}, found {seeds}.")


def touched(real: Real) -> list[str]:
    """What this evaluation looked at, in sentences."""
    if not real.private:
        return [f"Everything was computed from public data ({real.test.name}); nothing private was touched."]
    lines = [
        "This evaluation touched private images and added no noise: keep it inside, do not publish it.",
        f"The training images of {real.train.name} were read.",
    ]
    if real.test.public:
        return lines
    times = "once" if real.accesses == 1 else f"{real.accesses} times, this one included"
    lines.append(f"The private test set has been used {times}.")
    if real.accesses > 1:
        lines.append("Choosing a release by such numbers overstates how good it is.")
    return lines


def _about_release(release: Release) -> dict[str, Any]:
    statement = release.statement
    images = release.images
    return {
        "method": statement["reproducibility"]["method"],
        "guarantee": statement["guarantee"],
        "images": len(images),
        "distinct": release.distinct,
        "shape": list(images.pixels.shape[1:]),
        "classes": list(images.classes),
    }


def about_data(real: Real) -> dict[str, Any]:
    shared = int(real.shared.sum())
    warnings = [f"{shared} test images are training images too: accuracy on them is no test."] if shared else []
    if people := real.shared_persons:
        warnings.append(f"{people} persons of the test images are shown in training images too: they are no fair test.")
    return {
        "train": real.train.name,
        "train_records": len(real.train),
        "test": real.test.name,
        "test_records": len(real.test),
        "public": not real.private,
        "accesses": real.accesses,
        "shared": shared,
        "test_persons": None if real.persons is None else len(np.unique(real.persons)),
        "warnings": warnings,
    }


def counted(progress: Silent) -> Callable[[int, int, str], None]:
    """What `load` tells, on the display of an evaluation."""

    def tell(done: int, total: int, what: str) -> None:
        if done == 0:
            progress.start(what, total or None)
        else:
            progress.advance(done)

    return tell
