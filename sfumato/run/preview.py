"""How the images come about: a grid of samples now and then, from the generator alone.

A generator in training is made from released values, so that its images are as public as the last ones: previews cost
nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from sfumato.types import DataSpec

if TYPE_CHECKING:
    import torch

    from sfumato.run.run import Run

PICTURE = "strip.png"
FACTS = "strip.json"
FORMAT = "sfumato-strip/1"
MOST_CLASSES = 12  # columns
EACH = 2  # images of a class at each moment


@runtime_checkable
class Generator(Protocol):
    """What a preview asks of a generator."""

    def latents(self, n: int, random: torch.Generator, /) -> torch.Tensor: ...
    def settle(self, random: torch.Generator, /) -> None: ...
    def eval(self) -> Self: ...
    def pixels(self, z: torch.Tensor, labels: torch.Tensor, /) -> np.ndarray: ...


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


class Preview:
    """Takes a grid at about `times` evenly spaced steps, of the same few latents of each class.

    A run's preview is `run.pictures["preview"]`; give it to `run.steps` with the rest of the state. While the run has a
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
        run.pictures["preview"] = self

    def snapshot(self, step: int, total: int, net: Generator | Callable[[], Generator]) -> None:
        """Take a grid if it is time after this step, of `total`; a function is asked for the generator only then.

        The generator itself is left alone: a copy of it is settled and used.
        """
        self.total = total
        done = step + 1
        last = self.steps[-1] if self.steps else 0
        if not self.run.previews or not any(last < due <= done for due in due_steps(total, self.times)):
            return
        self.grids.append(self._grid(net))
        self.steps.append(done)
        self.epsilons.append(self._spent())

    def _grid(self, net: Generator | Callable[[], Generator]) -> np.ndarray:
        if isinstance(net, Generator):
            ready = copy.deepcopy(net)
            ready.settle(self.run.generator("preview statistics"))
        else:
            ready = net()
        images = ready.eval().pixels(self.latents, self.labels)
        _, channels, height, width = images.shape
        grid = images.reshape(EACH, self.classes, channels, height, width).transpose(2, 0, 3, 1, 4)
        return grid.reshape(channels, EACH * height, self.classes * width)

    def _spent(self) -> float | None:
        spent = self.run.odometer.epsilon() if self.run.odometer else math.inf
        return float(spent) if math.isfinite(spent) else None

    @property
    def waiting(self) -> bool:
        """Whether a new grid waits to be shown."""
        return self.run.shows and len(self.grids) != self._shown

    def show(self) -> None:
        """Put the latest grid into the folder of the run, if it is new; called right after a checkpoint."""
        if not self.run.ranks.first or not self.waiting:
            return
        from sfumato.data.images import png

        self._shown = len(self.grids)
        self.run.show(png(self.grids[-1]))

    def snapshots(self) -> Snapshots | None:
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


def due_steps(total: int, times: int) -> list[int]:
    """At most `times` numbers of steps from the first to the last, evenly spaced.

    >>> due_steps(86, 8), due_steps(3, 8)
    ([1, 13, 25, 37, 50, 62, 74, 86], [1, 2, 3])
    """
    return sorted({int(at) for at in np.linspace(1, total, times).round()}) if total > 0 else []
