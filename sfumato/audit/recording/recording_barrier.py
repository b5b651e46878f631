"""A barrier that writes down what a method does with it, with made-up records behind it.

Neighbours are recorded under one tape: the same public seed, the same answers, the same key of the partition, and units
that take part by coins of their own, at places of their own. Under it all that leaves a run must be the same to the
bit, and the exact sums behind the answers may differ by the declared sensitivity, and in a step without the changed
unit not at all.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.accounting.budget import Relation
from sfumato.audit.checks.frozen_draws import frozen, table_of
from sfumato.audit.recording.subject import Random
from sfumato.data.private import PrivateImages, Records
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BoundedSum, Summed
from sfumato.privacy.inside import Inside, Lot, Units
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.pages import BLANK, Pages
from sfumato.privacy.partitions import PartitionHandle, PartitionSum, TeacherModel
from sfumato.privacy.plan import Crossing, Plan
from sfumato.run.progress import Recorder
from sfumato.run.run import Run
from sfumato.types import DataSpec, Unit

STEPS = 4  # of training that are recorded
USES = 8  # releases of each crossing that are enough for a method with its own loop
HELD = 40  # releases of a crossing of held parts, which may ask one question at a time
MOST = 200  # releases of one crossing, while another has not been seen
MICROBATCH = 32  # all made-up records stand on one page: what a method keeps of its last one tells of each of them
FILES = False  # whether the working folder is the audit's own, so that files which appear there are the method's
RANKS: Any = None  # several of them, where that is forced
CHANGED = 0  # the unit in which neighbours differ
LOUD = 1e6  # factor on the losses of every other use, at which all gradients are clipped
SAMPLED = 6  # images that a finished generator is asked for
FEW = 24  # units that the pages of an auditor's own barriers are laid out for

Query = BoundedSum | Summed | PartitionSum | BatchValue


class StopLearning(BaseException):
    """Every crossing was seen often enough; no `except Exception` of a method stops this one."""


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Made-up records: uint8 images, labels and, where the unit is a person, who is in them.

    `names` tell units apart when some of them leave; they are numbered without it.
    """

    images: np.ndarray
    labels: np.ndarray
    persons: np.ndarray | None = None
    names: np.ndarray | None = None

    @property
    def units(self) -> np.ndarray:
        """The name of each unit, in order."""
        count = len(self.labels) if self.persons is None else int(self.persons.max(initial=-1)) + 1
        return np.arange(count) if self.names is None else self.names

    @property
    def key(self) -> tuple[bytes, ...]:
        """The same for the same records."""
        persons = b"" if self.persons is None else self.persons.tobytes()
        return self.images.tobytes(), self.labels.tobytes(), persons

    def box(self, spec: DataSpec) -> PrivateImages:
        """The records in a box, as a barrier takes them."""
        return PrivateImages(spec, self.stored())

    def stored(self) -> Records:
        """The records as they lie in a box, each known by a hash of its image and label."""
        named = [
            hashlib.blake2b(i.tobytes() + int(y).to_bytes(8, "big"), digest_size=32)
            for i, y in zip(self.images, self.labels, strict=True)
        ]
        digests = np.frombuffer(b"".join(n.digest() for n in named), np.uint8).reshape(-1, 32)
        return Records(_Pixels(self.images), self.labels, self.persons, digests)


class _Pixels:
    def __init__(self, images: np.ndarray) -> None:
        self._images = images
        channels, height, width = images.shape[1:]
        self.shape = (channels, height, width)

    def read(self, rows: Any) -> np.ndarray:
        return np.array(self._images[rows])

    def close(self) -> None:
        """Nothing to free."""


def made_up(spec: DataSpec, random: Random, units: int = 12) -> MadeUp:
    """A few records of the spec's shape; where the unit is a person, two a person, in any order.

    The first unit has a class of its own, where there are enough: it empties one when it leaves.
    """
    persons = random.permutation(np.repeat(np.arange(units), 2)) if spec.unit is Unit.PERSON else None
    owner = np.arange(units) if persons is None else persons
    images = random.integers(0, 256, (len(owner), *spec.shape), dtype=np.uint8)
    others = max(1, len(spec.classes) - 1)
    labels = np.where(owner == CHANGED, len(spec.classes) - 1, random.integers(0, others, len(owner)))
    return MadeUp(images, labels, persons)


def with_unit(records: MadeUp, unit: int, kind: str, spec: DataSpec, random: Random) -> MadeUp:
    """The records with those of one unit replaced by others of a kind."""
    images = records.images.copy()
    labels = records.labels.copy()
    rows = np.flatnonzero(records.persons == unit) if records.persons is not None else np.array([unit])
    for row in rows:
        images[row] = _image(images, row, kind, random)
        labels[row] = random.integers(0, len(spec.classes))
    return replace(records, images=images, labels=labels)


def _image(images: np.ndarray, row: int, kind: str, random: Random) -> np.ndarray:
    own: np.ndarray = images[row]
    shape = own.shape
    fresh = random.integers(0, 256, shape, dtype=np.uint8)
    if kind == "opposite":
        return 255 - own
    if kind == "tie":
        return np.asarray(np.indices(shape).sum(0) % 2 * 255, dtype=np.uint8)
    flat = {"zero": 0, "white": 255, "constant": 128}.get(kind)
    if flat is not None:
        return np.full(shape, flat, np.uint8)
    return np.array(images[-1]) if kind == "duplicate" else fresh


def without_unit(records: MadeUp, unit: int) -> MadeUp:
    """The records without those of one unit; the others keep their order."""
    gone = records.persons == unit if records.persons is not None else np.arange(len(records.labels)) == unit
    persons = None if records.persons is None else np.unique(records.persons[~gone], return_inverse=True)[1]
    return MadeUp(records.images[~gone], records.labels[~gone], persons, np.delete(records.units, unit))


def far(records: MadeUp) -> MadeUp:
    """Records that have nothing in common with these."""
    return replace(records, images=np.full_like(records.images, 255), labels=np.zeros_like(records.labels))


def neighbours(records: MadeUp, spec: DataSpec, seed: int) -> Iterator[tuple[str, Relation, MadeUp]]:
    """One unit made another, and one removed."""
    other = with_unit(records, CHANGED, "zero", spec, np.random.default_rng(seed))
    own = np.arange(len(records.labels)) == CHANGED if records.persons is None else records.persons == CHANGED
    labels = (records.labels + own) % len(spec.classes)
    yield "made constant and relabelled", Relation.REPLACE_ONE, replace(other, labels=labels)
    yield "removed", Relation.ADD_REMOVE, without_unit(records, CHANGED)


class Counting:
    """A noise source that counts what is drawn from it; the keys that it gives are those of a tape."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.vectors = 0
        self.values = 0
        self._keys = 0

    def gaussian(self, shape: tuple[int, ...], *more: Any) -> Any:
        """Count and draw."""
        self.vectors = self.vectors + 1
        self.values = self.values + math.prod(shape)
        return self._inner.gaussian(shape, *more)

    def discrete_gaussian(self, sigma: float, shape: tuple[int, ...], *more: Any) -> Any:
        """Count and draw."""
        self.vectors = self.vectors + 1
        self.values = self.values + math.prod(shape)
        return self._inner.discrete_gaussian(sigma, shape, *more)

    def discrete_laplace(self, scale: Any, shape: tuple[int, ...]) -> Any:
        """Count and draw."""
        self.vectors = self.vectors + 1
        self.values = self.values + math.prod(shape)
        return self._inner.discrete_laplace(scale, shape)

    def take(self, count: int) -> bytes:
        """The next key."""
        self._keys += 1
        return hashlib.shake_256(f"tape/{self._keys}".encode()).digest(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Told(Lot):
    """Neighbours alike: a unit takes part by a coin of its own, and stands at a place of its own."""

    def __init__(self, names: np.ndarray) -> None:
        self._names = names

    def units(self, crossing: Crossing, name: str, use: int, count: int, noise: Any, due: Units | None = None) -> Units:
        """By fair coins where a crossing samples: at its own rate, few records would hardly ever take part."""
        names = np.arange(count) if crossing.held else self._names
        if crossing.sampler.rate == 1:
            return np.arange(len(names))
        return np.array([i for i, unit in enumerate(names) if coin(name, use, int(unit))], dtype=np.int64)

    def placed(self, pages: Pages, units: Units, ordered: bool, noise: Any) -> Units:
        """As many pages as it takes; where their number is left to chance, one more for some of the neighbours."""
        places = self._names[units]
        count = int(places.max(initial=0)) // pages.rows + 1 + (not ordered and CHANGED not in self._names)
        layout = np.full(count * pages.rows, BLANK)
        layout[places] = units
        return layout.reshape(count, pages.rows)


def coin(name: str, use: int, unit: int) -> bool:
    """Whether a unit takes part in a use of a sampled crossing, while it is recorded."""
    return bool(hashlib.blake2b(f"{name}/{use}/{unit}".encode(), digest_size=1).digest()[0] & 1)


@dataclass(frozen=True, eq=False)
class Opened:
    """Parts as a method asked for them."""

    held: PartitionHandle
    model: TeacherModel
    parts: int


@dataclass(frozen=True, eq=False)
class Trained:
    """One update of held parts as a method ordered it."""

    held: PartitionHandle
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
    exact: Tensor | None = None  # the answer before noise
    device: str = "cpu"  # where it was computed

    @property
    def frozen(self) -> Any:
        """The query, with randomness that does not move."""
        return frozen(self.query, self.table)


Action = Opened | Trained | Asked


class RecordingBarrier:
    """Behind a barrier: passes each request on to a real one, writes it down, and answers from a fixed tape."""

    def __init__(self, records: MadeUp | None, plan: Plan, *, tape: int, device: str = "cpu") -> None:
        self.spec = plan.data
        self.odometer = Odometer(plan)
        box, names = (None, np.arange(0)) if records is None else (records.box(plan.data), records.units)
        self._ranks = None if RANKS is None else RANKS()
        self._real = Inside(
            box,
            plan.data,
            self.odometer,
            device=device,
            microbatch=MICROBATCH,
            ranks=self._ranks,
            lot=Told(names),
            heard=self._hear,
        )
        self._real.noise = self.noise = Counting(self._real.noise)  # type: ignore[assignment]
        self.barrier = Barrier.before(self)
        self._tape = tape
        self._uses = USES
        self.charged = 0
        self.device = device
        self.log: list[Action] = []
        self._tables: dict[str, tuple[Tensor, ...]] = {}
        self.shapes: list[tuple[str, tuple[int, ...]]] = []
        self.answers: list[Tensor] = []
        self._exact = torch.zeros(0)

    def _hear(self, name: str, total: Tensor) -> None:
        self._exact = total.detach().clone()

    @property
    def asked(self) -> list[Asked]:
        """The crossings, in order."""
        return [action for action in self.log if isinstance(action, Asked)]

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """As the real one does."""
        held = self._real.hold(model, parts)
        self.log.append(Opened(held, model, parts))
        return held

    def train(self, held: PartitionHandle, *public: Any) -> None:
        """As the real one does."""
        self._real.train(held, *public)
        self.log.append(Trained(held, _kept(public)))

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """As the real one does, but for the answer."""
        if self._enough(name):
            raise StopLearning
        before = self._before(query)
        already = self.odometer.used.get(name, 0)
        if name not in self._tables:  # once: later, what was drawn already may depend on who took part
            self._tables[name] = table_of(query)
        put = _loud(query) if already % 2 else query
        if self._ranks is not None:
            self._ranks.told_of(self._real.sums, name, put, 0, public)
        answer = self._real.release(name, put, *public)
        used = self.odometer.used[name]
        # Each value of each question needs a noise value of its own, and each question a use.
        questions = query.queries if isinstance(query, PartitionSum) else 1
        self.charged += (used - already) * answer.numel() // questions
        table = self._tables[name]
        exact = self._exact
        self.log.append(Asked(name, query, _kept(public), used, before, table, exact, self.device))
        self.shapes.append((name, tuple(answer.shape)))
        crossing = self.odometer.plan.crossings[name]
        random = np.random.default_rng([self._tape, used, *name.encode()])
        told = torch.from_numpy(random.normal(0.0, crossing.mechanism.std(crossing.bound), answer.shape)).to(answer)
        self.answers.append(told.clone())
        return told

    def _before(self, query: Query) -> tuple[Action, ...]:
        """What was done with the parts that are asked."""
        if not isinstance(query, PartitionSum):
            return ()
        return tuple(a for a in self.log if _held(a) is query.held)

    def _enough(self, name: str) -> bool:
        """Whether another release would show nothing new. A use beyond the plan is left to the odometer to refuse."""
        used = self.odometer.used
        planned = self.odometer.plan.crossings
        seen = Counter(n for n, _ in self.shapes)
        if name not in planned or used[name] >= planned[name].times:
            return False
        if seen[name] < (max(self._uses, HELD) if planned[name].held else self._uses):
            return False
        return seen[name] >= MOST or all(used[n] >= min(c.times, self._uses) for n, c in planned.items())


def _held(action: Action) -> PartitionHandle | None:
    if isinstance(action, Asked):
        return action.query.held if isinstance(action.query, PartitionSum) else None
    return action.held


def _kept(value: Any) -> Any:
    """The value as it is now: a method may go on to change its tensors in place."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return tuple(map(_kept, value)) if type(value) is tuple else value


def _loud(query: Query) -> Query:
    """A gradient query whose every loss is loud: all gradients are clipped then, and one more loud counts no more."""
    if not isinstance(query, ClippedGradient):
        return query
    return replace(query, loss=lambda *given: query.loss(*given) * LOUD)


@dataclass(frozen=True, eq=False)
class Seen:
    """All that becomes visible when a method learns."""

    barrier: RecordingBarrier
    weights: dict[str, Tensor] | None  # None where it was stopped
    error: BaseException | None = None
    left: dict[str, Any] = field(default_factory=dict)  # everything else that leaves a run
    notes: dict[str, Any] = field(default_factory=dict)  # what an auditor computes once


def learn(
    method: Any,
    plan: Plan,
    records: MadeUp | None,
    *,
    tape: int = 0,
    seed: int = 0,
    public: Any = None,
    device: str = "cpu",
) -> Seen:
    """Let a method learn briefly against a recording barrier."""
    barrier = RecordingBarrier(records, plan, tape=tape, device=device)
    run = Run(device=device, seed=seed, progress=Recorder(), odometer=barrier.odometer, most=STEPS)
    weights = None
    error = None
    left = {}
    with listening() as heard:
        try:
            options = {} if public is None else {"public": public}
            net = method.learn(barrier.barrier, run, **options)
            weights = _weights(net)
            left = _finished(net, seed)
        except StopLearning:
            pass
        except Exception as failed:  # a method under audit may fail in any way
            error = failed
    pictures = {name: vars(m) for name, p in run.pictures.items() if (m := p.snapshots()) is not None}
    left |= heard | {"kept": dict(run.kept), "made": dict(run.made), "previews": pictures}
    return Seen(barrier, weights, error, left | {"progress": run.progress.lines})  # type: ignore[attr-defined]


def _weights(net: torch.nn.Module) -> dict[str, Tensor]:
    """Parameters, and buffers whether or not they would be stored."""
    named = {**dict(net.named_buffers()), **net.state_dict()}
    return {k: v.detach().clone() for k, v in named.items() if isinstance(v, Tensor)}


def _finished(net: Any, seed: int) -> dict[str, Any]:
    """What is made of a generator in the end; other networks have no samples."""
    left: dict[str, Any] = {"config": net.config()} if hasattr(net, "config") else {}
    if hasattr(net, "sample"):
        images = net.sample(SAMPLED, seed=seed)
        left |= {"samples": images.pixels, "labels of samples": images.labels}
    return left


def _files() -> set[tuple[str, int]]:
    """What lies in the working folder, and when it was written; where nobody else writes there."""
    if not FILES:
        return set()
    with os.scandir() as entries:
        return {(e.name, e.stat(follow_symlinks=False).st_mtime_ns) for e in entries if e.is_file()}


@contextmanager
def listening() -> Iterator[dict[str, Any]]:
    """Whatever is printed, warned of, or logged for a user who asks for more than warnings."""
    out = io.StringIO()
    err = io.StringIO()
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    root = logging.getLogger()
    heard: dict[str, Any] = {}
    files = _files()
    handlers = root.handlers
    level = root.level
    root.handlers = [handler]  # nobody else hears of made-up records
    root.setLevel(min(level, logging.INFO) or logging.INFO)
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield heard
    finally:
        root.handlers = handlers
        root.setLevel(level)
        said = [str(w.message) for w in warned]
        heard |= {"standard output": out.getvalue(), "standard error": err.getvalue()}
        heard |= {"log lines": lines.getvalue(), "warnings": said, "files in the working folder": _files() - files}


def few(spec: DataSpec) -> DataSpec:
    """The same data on small pages: a barrier around a few made-up records has no need of thousands of blanks."""
    return replace(spec, records=min(spec.records, FEW))


@contextmanager
def frozen_rng(device: str = "cpu") -> Iterator[None]:
    """Any randomness of a query's own is the same each time."""
    with torch.random.fork_rng(devices=[device] if device.startswith("cuda") else []):
        torch.manual_seed(0)
        yield


def opened(plan: Plan, times: int = 1 << 40) -> Plan:
    """The plan with crossings that can be repeated at will, for audits of one step."""
    return replace(plan, crossings={n: replace(c, times=times) for n, c in plan.crossings.items()})
