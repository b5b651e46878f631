"""The whole evaluation of a release against real data: utility, fidelity, attacks, in one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import __version__
from sfumato.errors import InputError
from sfumato.evaluate.place import check_place, write
from sfumato.evaluate.real import Real, open_real
from sfumato.evaluate.results import Report
from sfumato.evaluate.utility import PROTOCOLS, check_classifiers, default_classifiers, gaps, utility
from sfumato.run.progress import Silent

if TYPE_CHECKING:
    from sfumato.release import Release

METRICS = ("utility", "fidelity", "attacks")
MOST_SEEDS = 50
FEWEST = 20  # members and non-members for an attack


def evaluate(
    release_folder: str | Path,
    data: Any,
    *,
    test: Any = None,
    protocol: str = "fixed",
    classifiers: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    seeds: int = 3,
    device: str = "auto",
    out: str | Path | None = None,
    groups: Any = None,
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
    recipes: Mapping[str, Any] | None = None,
) -> Report:
    """Compare the synthetic images of a release with the real `data` it was made from.

    The result describes the real data without any noise: it is internal. It is written to `out`, by default the folder
    RELEASE-evaluation beside the release; nothing is ever written inside the release. `groups` names subgroups of
    the test images, as a column of their metadata or as one name each. `reference` adds the row of a DC-GAN trained
    without privacy. `recipes` replaces the fixed schedules, for tests.
    """
    from sfumato.evaluate.report import write_html
    from sfumato.release import Release
    from sfumato.run.run import pick_device

    device = pick_device(device)
    progress = progress or Silent()
    chosen = check_metrics(metrics)
    names = check_classifiers(classifiers if classifiers is not None else default_classifiers(device))
    _check(protocol, seeds)
    place = check_place(release_folder, out)
    release = Release.load(release_folder)
    if len(release.images) < 2:
        raise InputError(f"{release_folder} has fewer than two images, which teach a classifier nothing.")
    real = open_real(
        data,
        release.images,
        test=test,
        split=split,
        test_split=test_split,
        label=label,
        groups=groups,
        ledger=ledger,
        progress=_counted(progress),
    )
    asked = {
        "protocol": protocol,
        "classifiers": list(names),
        "metrics": list(chosen),
        "seeds": seeds,
        "device": device,
        "reference": reference,
    }
    work = _Work(release, real, names, seeds, protocol, device, progress, dict(recipes or {}))
    sections = work.sections(chosen, reference, features, weights, attacks)
    about = {
        "software": f"sfumato {__version__}",
        "settings": asked,
        "release": _about_release(release),
        "data": _about_data(real),
        "touched": touched(real),
    }
    report = Report(about | sections | {"seconds": work.seconds}, real.private, real.accesses, command)
    write(report, place)
    write_html(report, release, real, place)
    return report


class _Work:
    """The parts of one evaluation; networks trained on real data are shared between them."""

    def __init__(
        self,
        release: Release,
        real: Real,
        names: Sequence[str],
        seeds: int,
        protocol: str,
        device: str,
        progress: Silent,
        recipes: dict[str, Any],
    ) -> None:
        self.release = release
        self.real = real
        self.names = names
        self.seeds = seeds
        self.protocol = protocol
        self.device = device
        self.progress = progress
        self.recipes = recipes
        self.seconds: dict[str, float] = {}
        self._kept: dict[str, Any] = {}

    def sections(
        self, chosen: Sequence[str], reference: bool, features: Any, weights: Any, kinds: Sequence[str] | None
    ) -> dict[str, Any]:
        """The asked-for sections."""
        sections: dict[str, Any] = {}
        if "utility" in chosen:
            sections["utility"] = self._timed("utility", lambda: self._utility(reference))
        if "fidelity" in chosen:
            sections["fidelity"] = self._timed("fidelity", lambda: self._fidelity(features, weights))
        if "attacks" in chosen:
            sections["attacks"] = self._timed("attacks", lambda: self._attacks(kinds))
        return sections

    def _timed(self, name: str, act: Callable[[], Any]) -> Any:
        start = time.monotonic()
        try:
            return act()
        finally:
            self.seconds[name] = round(time.monotonic() - start, 1)

    def _utility(self, reference: bool) -> dict[str, Any]:
        fake = self.release.images
        real = self.real.train
        synthetic = self._train(fake.pixels, fake.labels)
        on_real = self._train(real.pixels, real.labels, keep=self._kept)
        section = {
            "synthetic": synthetic,
            "real": on_real,
            "reference": None,
            "gap_to_reference": None,
            "gap_to_real": gaps(synthetic, on_real, "real minus synthetic"),
        }
        if reference:
            row = self._reference(len(fake))
            section |= {"reference": row, "gap_to_reference": gaps(synthetic, row, "DC-GAN minus synthetic")}
        return section

    def _train(self, pixels: np.ndarray, labels: np.ndarray, keep: dict[str, Any] | None = None) -> dict[str, Any]:
        test = self.real.test
        return utility(
            pixels,
            labels,
            test.pixels,
            test.labels,
            classes=self.release.images.classes,
            classifiers=self.names,
            seeds=self.seeds,
            protocol=self.protocol,
            device=self.device,
            groups=self.real.groups,
            recipes=self.recipes,
            progress=self.progress,
            keep=keep,
        )

    def _reference(self, count: int) -> dict[str, Any]:
        from sfumato.evaluate.reference import reference

        real = self.real.train
        images = reference(
            real.pixels,
            real.labels,
            classes=len(self.release.images.classes),
            count=count,
            training=self.recipes.get("reference"),
            device=self.device,
            progress=self.progress,
        )
        return self._train(*images) | {"trained_by": "a conditional DC-GAN on the real images, without privacy"}

    def _fidelity(self, features: Sequence[str] | None, weights: Mapping[str, str] | None) -> dict[str, Any]:
        try:
            from sfumato.evaluate.fidelity import fidelity
        except ImportError as error:
            return {"skipped": f"not available here ({error.name})"}
        real = self.real.train
        fake = self.release.images
        spaces = list(features) if features is not None else _default_features(self.device)
        values: dict[str, Any] = {}
        skipped: dict[str, str] = {}
        for name in spaces:
            try:
                values |= fidelity(
                    real.pixels,
                    real.labels,
                    fake.pixels,
                    fake.labels,
                    features=[name],
                    classifier=self._judge() if name == "classifier" else None,
                    device=self.device,
                    seed=0,
                    progress=self.progress,
                    weights=dict(weights or {}),
                    cache=real.public,
                )
            except InputError as error:
                if features is not None:
                    raise
                skipped[name] = str(error)
        return {"against": "training images", "features": spaces, "values": values, "skipped": skipped or None}

    def _judge(self) -> Any:
        """The CNN trained on real data, of the first seed."""
        from sfumato.evaluate import stacked
        from sfumato.evaluate.networks import judge

        real = self.real.train
        test = self.real.test
        fake = self.release.images
        if "cnn" not in self._kept:
            self._kept["cnn"] = stacked.train(
                "cnn",
                real.pixels,
                real.labels,
                test.pixels,
                test.labels,
                classes=len(fake.classes),
                seeds=[0],
                device=self.device,
                recipe=self.recipes.get("cnn"),
                looks=1,
                progress=self.progress,
            )
        kept = self._kept["cnn"]
        return judge(kept.network, "cnn", fake.pixels.shape[1:], len(fake.classes), 0, len(kept.logits))

    def _attacks(self, kinds: Sequence[str] | None) -> dict[str, Any]:
        """Training images are members; test images that are not among them are not."""
        try:
            from sfumato.evaluate.attacks import attacks
        except ImportError as error:
            return {"skipped": f"not available here ({error.name})"}
        train = self.real.train
        test = self.real.test
        alone = ~self.real.shared
        if min(len(train), alone.sum()) < FEWEST:
            return {"skipped": f"fewer than {FEWEST} test images are not training images too"}
        # Nobody said that the two parts are a random split of one set, so the result says what that may mean.
        return dict(
            attacks(
                self.release,
                (train.pixels, train.labels),
                (test.pixels[alone], test.labels[alone]),
                kinds=kinds if kinds is not None else _default_attacks(self.device),
                exchangeable=False,
                device=self.device,
                seed=0,
                progress=self.progress,
            )
        )


def _default_attacks(device: str) -> tuple[str, ...]:
    """All with a GPU; without one, those that need no search for every candidate."""
    from sfumato.evaluate.attacks import KINDS

    return tuple(k for k in KINDS if device.startswith("cuda") or k not in ("partial-black-box", "white-box"))


def _default_features(device: str) -> list[str]:
    """The public network reads images of 128 pixels, which takes too long without a GPU."""
    return ["classifier", "efficientnet-lite0"] if device.startswith("cuda") else ["classifier"]


def check_metrics(metrics: Sequence[str] | None) -> tuple[str, ...]:
    """The sections asked for, all unless named."""
    for name in metrics or ():
        if name not in METRICS:
            raise InputError(f"Expected --metrics from {', '.join(METRICS)}, found '{name}'.")
    return tuple(dict.fromkeys(metrics)) if metrics else METRICS


def _check(protocol: str, seeds: int) -> None:
    if protocol not in PROTOCOLS:
        raise InputError(f"Expected --protocol as {' or '.join(PROTOCOLS)}, found '{protocol}'.")
    if not 1 <= seeds <= MOST_SEEDS:
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
        "shape": list(images.pixels.shape[1:]),
        "classes": list(images.classes),
    }


def _about_data(real: Real) -> dict[str, Any]:
    shared = int(real.shared.sum())
    warnings = [f"{shared} test images are training images too: accuracy on them is no test."] if shared else []
    return {
        "train": real.train.name,
        "train_records": len(real.train),
        "test": real.test.name,
        "test_records": len(real.test),
        "public": not real.private,
        "accesses": real.accesses,
        "shared": shared,
        "warnings": warnings,
    }


def _counted(progress: Silent) -> Callable[[int, int, str], None]:
    """What `load` tells, on the display of an evaluation."""

    def tell(done: int, total: int, what: str) -> None:
        if done == 0:
            progress.start(what, total or None)
        else:
            progress.advance(done)

    return tell
