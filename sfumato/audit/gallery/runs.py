"""Bugs of whole methods that show along a run: draws by place, and teachers who visit the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sfumato.audit.gallery.common import Bug
from sfumato.engine.dpsgd import DPSGD, GRADIENT, DPSGDConfig
from sfumato.engine.teachers.critics import Critics
from sfumato.engine.teachers.stacked import Stacked
from sfumato.methods.base import Method
from sfumato.methods.teachers.votes import TopKSigns
from sfumato.networks.image_set import ImageSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, crossing
from sfumato.record_rng import drawing, record_keys, uniform
from sfumato.run.run import Run
from sfumato.types import DataSpec

STEPS = 8
Learn = Callable[[Barrier, Run, ImageSet], None]


@dataclass(frozen=True, kw_only=True)
class Planned(Method):
    """A method of a few parts: crossings at a noise scale, and what is done with them."""

    asks: Callable[[DataSpec, float], dict[str, Crossing]]
    work: Learn
    name: ClassVar[str] = "planned"

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        """As asked for."""
        return self.asks(spec, z)

    def settings(self) -> dict[str, Any]:
        """None that anybody sets."""
        return {}

    def learn(self, barrier: Barrier, run: Run, public: Any = None) -> ImageSet:
        """The work, which ends in a set of images."""
        net = ImageSet(barrier.spec.shape, barrier.spec.classes, each=1)
        self.work(barrier, run, net)
        return net


def by_place(bug: bool) -> Method:
    """The noise level of an example is drawn by its place in the order of a run, or is a function of the example."""
    config = DPSGDConfig(STEPS, batch=6)

    def work(barrier: Barrier, run: Run, net: ImageSet) -> None:
        linear = nn.Linear(barrier.spec.pixels, 1, bias=False)
        levels = run.generator("levels")
        nn.init.zeros_(linear.weight)

        def loss(critic: nn.Module, images: Tensor, labels: Tensor, drawn: Tensor, *copy: Tensor) -> Tensor:
            level = drawn if bug else uniform(record_keys(images, drawn), ())
            scores: Tensor = critic((images + level[:, None, None, None]).square().flatten(1))[:, 0]
            return scores * (level - 0.5)

        def draw(step: int) -> Callable[[int], tuple[Tensor, ...]]:
            return lambda rows: (torch.rand(rows, generator=levels),)

        optimiser = torch.optim.SGD(linear.parameters(), lr=0.1)
        drawn = draw if bug else drawing(run.generator)
        sgd = DPSGD(linear, loss, run, config, optimiser, draw=drawn)
        for _ in sgd.steps():
            sgd.step(barrier.release(GRADIENT, sgd.query) / config.batch)
            net.images.data[:] = linear.weight.detach().view(barrier.spec.shape)

    return Planned(asks=lambda spec, z: {GRADIENT: config.crossing(spec, z)}, work=work)


@dataclass(frozen=True)
class _Visited:
    """A model of critics, two in a block; `shared` ones find the moments that the last visitor left."""

    critics: Critics
    shared: bool
    left: dict[str, Tensor] = field(default_factory=dict)

    @property
    def teacher_batch(self) -> int:
        return self.critics.teacher_batch

    def block(self, parts: int, device: str) -> int:
        return 2

    def make(self, count: int, random: torch.Generator, device: str) -> _Visitor:
        return _Visitor(self, self.critics.make(count, random, device))


class _Visitor:
    """A block that comes to the device and leaves it: all of its state goes with it, or its weights alone."""

    def __init__(self, model: _Visited, teachers: Stacked) -> None:
        self._model = model
        self.teachers = teachers

    def update(self, images: Tensor, labels: Tensor, *public: Any) -> None:
        self.teachers.update(images, labels, *public)
        self._model.left.update(self._moments())

    def _moments(self) -> dict[str, Tensor]:
        return {n: t for n, t in self.teachers.state_dict().items() if not n.startswith("weights.")}

    def state_dict(self) -> dict[str, Tensor]:
        state = self.teachers.state_dict()
        return {n: t for n, t in state.items() if n.startswith("weights.")} if self._model.shared else state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.teachers.load_state_dict((self._moments() | self._model.left if self._model.shared else {}) | dict(state))


def visitors(bug: bool) -> Method:
    """Blocks of teachers that do not fit the device visit it in turn; each finds the moments of the one before."""
    queries = 3
    votes = TopKSigns(4, stochastic=False)

    def work(barrier: Barrier, run: Run, net: ImageSet) -> None:
        spec = barrier.spec
        held = barrier.hold(
            _Visited(Critics(spec.shape, len(spec.classes), width=2, hidden=4, teacher_batch=2), bug), 8
        )
        query = PartitionSum(
            held,
            lambda teachers, random, x, y: votes.encode(teachers.teachers.directions(x, y), random),
            votes.bound(spec.pixels),
            (spec.pixels,),
            queries,
        )
        for step in run.steps(STEPS, net=net, teachers=held):
            fakes = torch.rand(queries, *spec.shape, generator=run.generator("fakes", step))
            labels = torch.arange(queries) % len(spec.classes)
            barrier.train(held, fakes, labels)
            answer = barrier.release("votes", query, fakes, labels)
            net.images.data += 1e-3 * answer.mean(0).view(spec.shape).to(net.images)

    def crossings(spec: DataSpec, noise: float) -> dict[str, Crossing]:
        return {"votes": crossing(votes.bound(spec.pixels), noise, times=STEPS * queries, held=True)}

    return Planned(asks=crossings, work=work)


BUGS = (
    Bug("B29", "noise levels drawn by place under a public seed", by_place, ("sums along a run",), level=0),
    Bug("B30", "visiting blocks of teachers share an optimiser's moments", visitors, ("forced paths",), level=0),
)
