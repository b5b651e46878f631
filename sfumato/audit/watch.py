"""A barrier that writes down what a method does with it, with made-up records behind it."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.audit.steady import still, table_of
from sfumato.audit.subject import Random
from sfumato.data.private import PrivateImages, Records
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BoundedSum, Summed
from sfumato.privacy.held import Held, PartSum, Recipe
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.plan import Plan
from sfumato.run.progress import Silent
from sfumato.run.run import Run
from sfumato.types import DataSpec, Unit

STEPS = 2  # of training that are watched
USES = 6  # releases of each crossing that are enough for a method with its own loop
HELD = 40  # releases of a crossing of held parts, which may ask one question at a time
MOST = 200  # releases of one crossing, while another has not been seen

Query = BoundedSum | Summed | PartSum | BatchValue


class StopLearning(BaseException):
    """Every crossing was seen often enough; no `except Exception` of a method stops this one."""


@dataclass(frozen=True, eq=False)
class Made:
    """Made-up records: uint8 images, labels and, where the unit is a person, who is in them."""

    images: np.ndarray
    labels: np.ndarray
    persons: np.ndarray | None = None

    @property
    def key(self) -> tuple[bytes, ...]:
        """The same for the same records."""
        persons = b"" if self.persons is None else self.persons.tobytes()
        return self.images.tobytes(), self.labels.tobytes(), persons

    def box(self, spec: DataSpec) -> PrivateImages:
        """The records in a box, as a barrier takes them."""
        return PrivateImages(spec, self.records())

    def records(self) -> Records:
        """The records as they lie in a box, each known by a hash of its image and label."""
        named = (hashlib.blake2b(i.tobytes() + int(y).to_bytes(8, "big"), digest_size=32) for i, y in
                 zip(self.images, self.labels, strict=True))  # fmt: skip
        digests = np.frombuffer(b"".join(n.digest() for n in named), np.uint8).reshape(-1, 32)
        return Records(_Pixels(self.images), self.labels, self.persons, digests)  # type: ignore[arg-type]


class _Pixels:
    def __init__(self, images: np.ndarray) -> None:
        self._images, self.shape = images, images.shape[1:]

    def read(self, rows: Any) -> np.ndarray:
        return self._images[rows].copy()

    def close(self) -> None:
        """Nothing to free."""


def made_up(spec: DataSpec, random: Random, units: int = 12) -> Made:
    """A few records of the spec's shape, two a person where the unit is a person."""
    persons = np.repeat(np.arange(units), 2) if spec.unit is Unit.PERSON else None
    n = units if persons is None else len(persons)
    images = random.integers(0, 256, (n, *spec.shape), dtype=np.uint8)
    return Made(images, random.integers(0, len(spec.classes), n), persons)


class Counting:
    """A noise source that counts what is drawn from it."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.vectors, self.values = inner, 0, 0

    def gaussian(self, shape: tuple[int, ...], *more: Any) -> Any:
        """Count and draw."""
        self.vectors, self.values = self.vectors + 1, self.values + math.prod(shape)
        return self._inner.gaussian(shape, *more)

    def discrete_gaussian(self, sigma: float, shape: tuple[int, ...], *more: Any) -> Any:
        """Count and draw."""
        self.vectors, self.values = self.vectors + 1, self.values + math.prod(shape)
        return self._inner.discrete_gaussian(sigma, shape, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass(frozen=True, eq=False)
class Opened:
    """Parts as a method asked for them."""

    held: Held
    recipe: Recipe
    parts: int


@dataclass(frozen=True, eq=False)
class Trained:
    """One update of held parts as a method ordered it."""

    held: Held
    public: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Asked:
    """One crossing as a method made it; for held parts, after all that had been done with them before."""

    name: str
    query: Query
    public: tuple[Any, ...]
    use: int = 1
    before: tuple[Action, ...] = ()
    table: tuple[Tensor, ...] = ()  # draws of a query that has randomness of its own

    @property
    def still(self) -> Any:
        """The query, with randomness that does not move."""
        return still(self.query, self.table)


Action = Opened | Trained | Asked


class Watched:
    """In front of a real barrier: passes each request on, writes it down, and answers from a fixed tape."""

    def __init__(self, made: Made | None, plan: Plan, *, tape: int, uses: int = USES) -> None:
        self.spec, self.ledger = plan.data, Ledger(plan)
        box = None if made is None else made.box(plan.data)
        self._real = Barrier(box, plan.data, self.ledger, microbatch=64)
        self._real.noise = self.noise = Counting(self._real.noise)  # type: ignore[assignment]
        self._tape, self._uses, self.charged = tape, uses, 0
        self.log: list[Action] = []
        self._tables: dict[str, tuple[Tensor, ...]] = {}
        self.shapes: list[tuple[str, tuple[int, ...]]] = []

    @property
    def asked(self) -> list[Asked]:
        """The crossings, in order."""
        return [action for action in self.log if isinstance(action, Asked)]

    def hold(self, recipe: Recipe, parts: int) -> Held:
        """As the real one does."""
        held = self._real.hold(recipe, parts)
        self.log.append(Opened(held, recipe, parts))
        return held

    def train(self, held: Held, *public: Any) -> None:
        """As the real one does."""
        self._real.train(held, *public)
        self.log.append(Trained(held, _kept(public)))

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """As the real one does, but for the answer."""
        if self._enough(name):
            raise StopLearning
        before, already = self._before(query), self.ledger.used.get(name, 0)
        if name not in self._tables:  # once: later, what was drawn already may depend on who took part
            self._tables[name] = table_of(query)
        answer = self._real.release(name, query, *public)
        used = self.ledger.used[name]
        # Each value of each question needs a noise value of its own, and each question a use.
        questions = query.queries if isinstance(query, PartSum) else 1
        self.charged += (used - already) * answer.numel() // questions
        self.log.append(Asked(name, query, _kept(public), used, before, self._tables[name]))
        self.shapes.append((name, tuple(answer.shape)))
        crossing = self.ledger.plan.crossings[name]
        random = np.random.default_rng([self._tape, used, *name.encode()])
        return torch.from_numpy(random.normal(0.0, crossing.mechanism.std(crossing.bound), answer.shape))

    def _before(self, query: Query) -> tuple[Action, ...]:
        """What was done with the parts that are asked."""
        if not isinstance(query, PartSum):
            return ()
        return tuple(a for a in self.log if _held(a) is query.held)

    def _enough(self, name: str) -> bool:
        """Whether another release would show nothing new. A use beyond the plan is left to the ledger to refuse."""
        used, planned, seen = self.ledger.used, self.ledger.plan.crossings, Counter(n for n, _ in self.shapes)
        if name not in planned or used[name] >= planned[name].times:
            return False
        if seen[name] < (max(self._uses, HELD) if planned[name].held else self._uses):
            return False
        return seen[name] >= MOST or all(used[n] >= min(c.times, self._uses) for n, c in planned.items())


def _held(action: Action) -> Held | None:
    if isinstance(action, Asked):
        return action.query.held if isinstance(action.query, PartSum) else None
    return action.held


def _kept(value: Any) -> Any:
    """The value as it is now: a method may go on to change its tensors in place."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return tuple(map(_kept, value)) if type(value) is tuple else value


@dataclass
class Brief(Run):
    """A run that takes only the first steps of a long training."""

    device: str = "cpu"
    progress: Silent = field(default_factory=Silent)

    def steps(self, total: int, **state: Any) -> Iterator[int]:
        """The first few step numbers."""
        yield from range(min(STEPS, total))


@dataclass(frozen=True, eq=False)
class Seen:
    """All that becomes visible when a method learns."""

    barrier: Watched
    weights: dict[str, Tensor] | None  # None where it was stopped
    error: BaseException | None = None
    notes: dict[str, Any] = field(default_factory=dict)  # what an auditor computes once


def learn(method: Any, plan: Plan, made: Made | None, *, tape: int = 0, seed: int = 0, public: Any = None) -> Seen:
    """Let a method learn briefly against a watched barrier."""
    barrier = Watched(made, plan, tape=tape)
    run = Brief(device="cpu", seed=seed, ledger=barrier.ledger)
    try:
        options = {} if public is None else {"public": public}
        net = method.learn(barrier, run, **options)
        weights = {k: v.detach().clone() for k, v in net.state_dict().items() if isinstance(v, Tensor)}
        return Seen(barrier, weights)
    except StopLearning:
        return Seen(barrier, None)
    except Exception as error:  # a method under audit may fail in any way
        return Seen(barrier, None, error)


def opened(plan: Plan, times: int = 1 << 40) -> Plan:
    """The plan with crossings that can be repeated at will, for audits of one step."""
    return replace(plan, crossings={n: replace(c, times=times) for n, c in plan.crossings.items()})
