"""How the images come about: a grid of samples now and then, from the generator alone.

A generator in training is made from released values, so that its images are as public as the last ones: previews cost
nothing.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.types import DataSpec

if TYPE_CHECKING:
    from sfumato.networks.generator import Generator
    from sfumato.run.run import Run

PICTURE = "strip.png"
FACTS = "strip.json"
FORMAT = "sfumato-strip/1"
# columns, and images of a class at each moment
MOST_CLASSES = 12
EACH = 2


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Grids of sample images at some moments of a run: rows of images, one column a class."""

    pixels: np.ndarray  # uint8, (moments, channels, height, width)
    steps: tuple[int, ...]  # how many were done at each
    epsilons: tuple[float | None, ...]  # and what was spent by then
    total: int  # steps of the whole run

    def __len__(self) -> int:
        return len(self.steps)

    def picture(self) -> np.ndarray:
        """All of the grids in one image (channels, height, width), from top to bottom."""
        return np.concatenate(list(self.pixels), axis=1)

    def facts(self) -> dict[str, Any]:
        """What goes with the picture, for a JSON file."""
        rows = [{"step": s, "epsilon": e} for s, e in zip(self.steps, self.epsilons, strict=True)]
        return {"format": FORMAT, "total": self.total, "moments": rows}

    def problem(self, epsilon: float) -> str | None:
        """What cannot be so in a release that states this epsilon."""
        if not self.steps or any(a >= b for a, b in pairwise((0, *self.steps, self.total + 1))):
            return f"The moments of {FACTS} are not in their order."
        spent = [e for e in self.epsilons if e is not None]
        if any(not a <= b for a, b in pairwise((0.0, *spent, epsilon * (1 + 1e-6)))):
            return f"The epsilons of {FACTS} do not rise to the one that is stated."
        return None


def read_moments(folder: Path) -> Snapshots | None:
    """The moments of a release folder, where it has them."""
    from sfumato.release.documents.pictures import decode_one

    if not (folder / PICTURE).exists() and not (folder / FACTS).exists():
        return None
    try:
        facts = json.loads((folder / FACTS).read_bytes())
        steps, epsilons = zip(*((int(row["step"]), row["epsilon"]) for row in facts["moments"]), strict=True)
        picture = decode_one(PICTURE, (folder / PICTURE).read_bytes())
        pixels = np.stack(np.split(picture, len(steps), axis=1))
        found = Snapshots(pixels, steps, tuple(None if e is None else float(e) for e in epsilons), int(facts["total"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{folder / PICTURE} and {FACTS} do not go together; fetch the release again.") from error
    if found.facts() != facts:
        raise InputError(f"{folder / FACTS} is not of format {FORMAT}; use the version of sfumato that wrote it.")
    return found


class Preview:
    """Takes a grid at about `times` evenly spaced steps, of the same few latents of each class.

    A run's strip is `run.pictures["strip"]`; give it to `run.steps` with the rest of the state. While the run has a
    folder, `show` puts the latest grid there as `preview.png`. A preview is a release: it is shown only after a
    checkpoint that counts the crossings it is made from, since a crash takes the run back to its last checkpoint.
    """

    def __init__(self, run: Run, net: Generator, spec: DataSpec, times: int = 8) -> None:
        import torch

        self.run = run
        self.times = times
        self.classes = min(len(spec.classes), MOST_CLASSES)
        self.labels = torch.arange(self.classes).repeat(EACH)
        self.latents = net.latents(len(self.labels), run.generator("preview"))
        self.grids: list[np.ndarray] = []
        self.steps: list[int] = []
        self.epsilons: list[float | None] = []
        self.total = 0
        self._shown = 0
        run.pictures["strip"] = self

    def look(self, step: int, total: int, net: Generator | Callable[[], Generator]) -> None:
        """Take a grid if it is time after this step, of `total`; a function is asked for the generator only then.

        The generator itself is left alone: a copy of it is settled and used.
        """
        self.total = total
        done = step + 1
        last = self.steps[-1] if self.steps else 0
        if not self.run.previews or not any(last < due <= done for due in moments(total, self.times)):
            return
        self.grids.append(self._grid(net))
        self.steps.append(done)
        self.epsilons.append(self._spent())

    def _grid(self, net: Generator | Callable[[], Generator]) -> np.ndarray:
        import torch

        if isinstance(net, torch.nn.Module):
            net = copy.deepcopy(net)
            net.settle(self.run.generator("preview statistics"))
        else:
            net = net()
        made = net.eval().pixels(self.latents, self.labels)
        grid = made.reshape(EACH, self.classes, *made.shape[1:]).transpose(2, 0, 3, 1, 4)
        return grid.reshape(made.shape[1], EACH * made.shape[2], self.classes * made.shape[3])

    def _spent(self) -> float | None:
        spent = self.run.odometer.epsilon() if self.run.odometer else math.inf
        return float(spent) if math.isfinite(spent) else None

    @property
    def waiting(self) -> bool:
        """Whether a new grid waits to be shown."""
        return self.run.folder is not None and len(self.grids) != self._shown

    def show(self) -> None:
        """Put the latest grid into the folder of the run, if it is new; called right after a checkpoint."""
        if self.run.folder is None or not self.run.ranks.first or not self.waiting:
            return
        from sfumato.ledger.durable import replace
        from sfumato.release.documents.pictures import png

        self._shown = len(self.grids)
        path = self.run.folder / "preview.png"
        replace(path, png(self.grids[-1]))
        self.run.progress.picture(path)

    def moments(self) -> Snapshots | None:
        """All that was taken so far, for a release."""
        if not self.grids:
            return None
        return Snapshots(np.stack(self.grids), tuple(self.steps), tuple(self.epsilons), self.total)

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        import torch

        grids = [torch.from_numpy(grid.copy()) for grid in self.grids]
        return {"grids": grids, "steps": list(self.steps), "epsilons": list(self.epsilons), "total": self.total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of the same run."""
        self.grids = [grid.cpu().numpy() for grid in state["grids"]]
        self.steps = list(state["steps"])
        self.epsilons = list(state["epsilons"])
        self.total = int(state["total"])


def moments(total: int, times: int) -> list[int]:
    """At most `times` numbers of steps from the first to the last, evenly spaced.

    >>> moments(86, 8), moments(3, 8)
    ([1, 13, 25, 37, 50, 62, 74, 86], [1, 2, 3])
    """
    return sorted({int(at) for at in np.linspace(1, total, times).round()}) if total > 0 else []
