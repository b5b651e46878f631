"""Bugs of whole methods: a private number leaves by the side, or decides something that shows.

One small method, the noisy mean image in a few steps. What its query computes on the way is at hand, as it is in any
method that keeps a value in a closure; a bug uses that, and its twin does the same with what the barrier returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.audit.gallery.common import Bug
from sfumato.methods.base import Method
from sfumato.networks.image_set import ImageSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, crossing
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec

BALL = Bound(1.0)
STEPS = 4
# of a brightness: one that is refused, and a distance from grey that will do
LIMIT = 0.4
NEAR = 0.1


class _Overheard:
    """What a query computes on its way to a sum: nobody else's business."""

    def __init__(self) -> None:
        self.image = torch.zeros(0)
        self.norms = torch.zeros(0)
        self.count = 0

    def rows(self, images: Tensor, labels: Tensor) -> Tensor:
        """The images as they are."""
        rows = images.flatten(1)
        there = rows.sum(1) > 0
        self.norms = rows.norm(dim=1)
        self.count = max(1, int(there.sum()))
        self.image = rows.sum(0) / self.count
        return rows


@dataclass(frozen=True, eq=False)
class _Moment:
    """A step of the method, with a number, an image and a value to keep: exact ones where the bug is planted."""

    planted: bool
    barrier: Any
    run: Run
    net: ImageSet
    preview: Preview
    step: int
    image: Tensor
    kept: Tensor

    @property
    def number(self) -> float:
        """How bright the images are."""
        return float(self.image.mean())


Use = Callable[[_Moment], bool | None]


@dataclass(frozen=True, kw_only=True)
class MeanImage(Method):
    """The noisy mean image; `use` does something with each step, and ends the run where it returns true."""

    use: Use
    planted: bool
    releases: int = STEPS  # steps from then on read the last answer again
    name: ClassVar[str] = "mean-image"

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        """One kind."""
        return {"mean": crossing(BALL, z, times=self.releases)}

    def settings(self) -> dict[str, Any]:
        """None that anybody sets."""
        return {}

    def learn(self, barrier: Barrier, run: Run, public: Any = None) -> ImageSet:
        """Each step moves the images towards the released mean."""
        spec = barrier.spec
        overheard = _Overheard()
        net = ImageSet(spec.shape, spec.classes, each=1)
        preview = Preview(run, net, spec)
        query = BoundedSum(overheard.rows, BALL, (spec.pixels,))
        answer = torch.zeros(spec.pixels, dtype=torch.float64)
        for step in run.steps(STEPS, net=net, preview=preview):
            if step < self.releases:
                answer = barrier.release("mean", query)
            net.images.data += 0.1 * (answer / spec.records).view(spec.shape).to(net.images)
            image = answer / spec.records
            kept = answer
            if self.planted:
                image = overheard.image.double()
                kept = overheard.norms
            if self.use(_Moment(self.planted, barrier, run, net, preview, step, image, kept)):
                break
        return net


def _keep(at: _Moment) -> None:
    at.run.kept[f"step {at.step}"] = at.kept


def _stop(at: _Moment) -> bool:
    return abs(at.number - 0.5) < NEAR


def _best(at: _Moment) -> None:
    """Two runs, one towards grey and one towards black; the one that is nearer to the records is kept."""
    runs = (torch.full_like(at.net.images, 0.5), torch.zeros_like(at.net.images))
    at.net.images.data += min(runs, key=lambda images: abs(float(images.mean()) - at.number))


def _reach(at: _Moment) -> None:
    at.net.images.data += 0.0 * (at.barrier._inside.sums.units if at.planted else at.barrier.spec.records)


class _Quiet:
    """In place of a noise source."""

    def gaussian(self, shape: tuple[int, ...], spread: float, device: str = "cpu") -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=device)


def _replace(at: _Moment) -> None:
    if at.planted:
        at.barrier.noise = _Quiet()
    at.run.made["noise"] = at.barrier.noise.source


def _lower(at: _Moment) -> None:
    state = at.run.odometer.state_dict()
    at.run.odometer.load_state_dict(state | {"used": {name: used - at.planted for name, used in state["used"].items()}})


def _configure(at: _Moment) -> None:
    first = min(max(at.number, 0.0), 1.0)
    others = len(at.net.classes) - 1
    at.net.label_weights = [first, *[(1 - first) / others] * others]


def _buffer(at: _Moment) -> None:
    at.net.register_buffer("mean", at.image, persistent=False)


def _note(at: _Moment) -> None:
    at.run.progress.advance(at.step + 1, f"loss {at.number:.6f}")


def _print(at: _Moment) -> None:
    print(f"step {at.step + 1}: loss {at.number:.6f}")  # noqa: T201


def _log(at: _Moment) -> None:
    logging.getLogger("gallery").info("step %d: loss %.6f", at.step + 1, at.number)


def _raise(at: _Moment) -> None:
    if at.number > LIMIT:
        raise ValueError(f"Expected images of a brightness below {LIMIT}, found {at.number:.6f}.")


def _show(at: _Moment) -> None:
    shown = ImageSet(at.net.shape, at.net.classes, each=1)
    shown.images.data[:] = at.image.view(at.net.shape)
    at.preview.snapshot(at.step, STEPS, shown)


def _publish(at: _Moment) -> None:
    at.run.made["brightness"] = at.number


def _read(at: _Moment) -> None:
    """A sum is asked for once and kept; whoever reads it adds noise to what was kept."""
    plan = at.barrier.plan.crossings["mean"]
    drawn = torch.randn(at.image.shape, generator=at.run.generator("noise", at.step), dtype=torch.float64)
    spread = plan.mechanism.std(plan.bound) / at.barrier.spec.records
    at.net.images.data += 0.1 * (at.image + spread * drawn).view(at.net.shape).to(at.net.images)


def _target(at: _Moment) -> None:
    """A noisy copy as a diffusion model sees it, and the noise in it, which the loss is told to find."""
    noise = 20 * torch.randn(at.image.shape, generator=at.run.generator("forward", at.step), dtype=torch.float64)
    noisy = at.image + noise
    at.net.images.data += 0.1 * (noisy - noise).view(at.net.shape).to(at.net.images)


def _bug(number: str, name: str, use: Use, by: str, releases: int = STEPS) -> Bug:
    return Bug(number, name, partial(_method, use, releases), (by,), level=0)


def _method(use: Use, releases: int, planted: bool) -> Method:
    return MeanImage(use=use, planted=planted, releases=releases)


BUGS = (
    _bug("B32", "norms of single records among the kept values", _keep, "kept values"),
    _bug("B33", "early stopping on a private loss", _stop, "blind barrier"),
    _bug("B34", "the best of two runs by an exact score", _best, "blind barrier"),
    _bug("B35", "a look behind the barrier", _reach, "learns"),
    _bug("B36", "the noise replaced by the method", _replace, "learns"),
    _bug("B37", "the odometer's count lowered by the method", _lower, "learns"),
    _bug("B38", "a private number in the generator's configuration", _configure, "fixed tape"),
    _bug("B39", "the exact mean image in a buffer", _buffer, "fixed tape"),
    _bug("B40", "a private loss in a note of progress", _note, "fixed tape"),
    _bug("B41", "a private loss printed", _print, "fixed tape"),
    _bug("B42", "a private loss in a log line", _log, "fixed tape"),
    _bug("B43", "a private number in the message of an error", _raise, "learns"),
    _bug("B44", "a preview made of real images", _show, "fixed tape"),
    _bug("B45", "clean sums kept, and noised anew at each read", _read, "fixed tape", releases=1),
    _bug("B46", "a private number among the values to publish", _publish, "fixed tape"),
    _bug("B50", "forward noise taken for privacy while the loss is told it", _target, "fixed tape"),
)
