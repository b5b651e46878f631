"""The sections of one evaluation: utility, fidelity, attacks. Networks trained on real data are shared between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.evaluate.effort import Effort
from sfumato.evaluate.real import Real
from sfumato.evaluate.utility import gaps, utility
from sfumato.run.progress import Silent

if TYPE_CHECKING:
    from sfumato.release import Release

FEWEST = 20  # members and non-members for an attack


class Work:
    """The parts of one evaluation; networks trained on real data are shared between them."""

    def __init__(
        self,
        release: Release,
        real: Real,
        effort: Effort,
        protocol: str,
        device: str,
        progress: Silent,
        schedules: Mapping[str, Any],
        named: bool = False,
    ) -> None:
        self.release = release
        self.real = real
        self.effort = effort
        self.protocol = protocol
        self.device = device
        self.progress = progress
        self.schedules = shortened(effort) | dict(schedules)
        self.named = named  # whether the feature spaces were asked for by name, so that one that is missing is an error
        self.seconds: dict[str, float] = {}
        self._kept: dict[str, Any] = {}

    def sections(self, reference: bool, weights: Mapping[str, str] | None) -> dict[str, Any]:
        """The asked-for sections."""
        makers: dict[str, Callable[[], Any]] = {
            "utility": lambda: self._utility(reference),
            "fidelity": lambda: self._fidelity(weights),
            "attacks": self._attacks,
        }
        return {name: self._timed(name, act) for name, act in makers.items() if name in self.effort.metrics}

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
            classifiers=self.effort.classifiers,
            seeds=self.effort.seeds,
            protocol=self.protocol,
            device=self.device,
            groups=self.real.groups,
            persons=self.real.persons,
            looks=self.effort.looks,
            schedules=self.schedules,
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
            training=self.schedules.get("reference"),
            device=self.device,
            progress=self.progress,
        )
        return self._train(*images) | {"trained_by": "a conditional DC-GAN on the real images, without privacy"}

    def _fidelity(self, weights: Mapping[str, str] | None) -> dict[str, Any]:
        try:
            from sfumato.evaluate.fidelity import fidelity
        except ImportError as error:
            return {"skipped": f"not available here ({error.name})"}
        real = self.real.train
        fake = self.release.images
        spaces = list(self.effort.features)
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
                if self.named:
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
                schedule=self.schedules.get("cnn"),
                looks=1,
                progress=self.progress,
            )
        kept = self._kept["cnn"]
        return judge(kept.network, "cnn", fake.pixels.shape[1:], len(fake.classes), 0, len(kept.logits))

    def _attacks(self) -> dict[str, Any]:
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
        fake = self.release.images
        most = self.effort.images
        # Nobody said that the two parts are a random split of one set, so the result says what that may mean.
        return dict(
            attacks(
                self.release,
                (train.pixels, train.labels),
                (test.pixels[alone], test.labels[alone]),
                kinds=self.effort.attacks,
                images=None if most is None else (fake.pixels[:most], fake.labels[:most]),
                exchangeable=False,
                device=self.device,
                seed=0,
                progress=self.progress,
            )
        )


def shortened(effort: Effort) -> dict[str, Any]:
    """The schedules of an effort; those of the networks themselves where it takes all steps."""
    if effort.steps is None:
        return {}
    from sfumato.evaluate.stacked import SCHEDULES

    return {name: replace(schedule, steps=effort.steps) for name, schedule in SCHEDULES.items()}
