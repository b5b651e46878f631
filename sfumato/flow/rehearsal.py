"""A rehearsal: all that can fail for want of a file, a package, a shape, memory or public data fails before money does.

The very method with the very public data learns on the device of the run, for a step, from a few made-up records of
the shape of the data. Then it makes a few images, and they are written somewhere and thrown away. No private record
is near: the barrier is one of its own, with an odometer of its own.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sfumato.audit.recording.recording_barrier import made_up
from sfumato.errors import InputError, SfumatoError
from sfumato.flow.expected_memory import Memory, Scales
from sfumato.flow.expected_time import Stopwatch
from sfumato.networks.generator import settled_briefly
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.inside import REMEMBERED, Inside, Lot, Units, apart, pages_of
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.pages import Pages
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan
from sfumato.run.run import Run

RECORDS = 4
WIDE = 512  # of a page on a CPU, where a narrow one took less than a moment
MOMENT = 0.05  # seconds
IMAGES = 2  # that a generator makes at the end
PARTS = 8  # of held ones on a CPU; elsewhere a block of them, which is what must fit into memory
ROWS = 32  # of a page on a CPU
USES = 8  # of one crossing, once all of them were tried
UPDATES = 1  # of held parts between two questions


@dataclass(frozen=True)
class Expected:
    """What a run will take, by its rehearsal."""

    seconds: float
    memory: Memory | None = None


class _Seen(BaseException):
    """Every crossing was tried; no `except Exception` of a method stops this one."""


class _Everybody(Lot):
    """Of so few records a sampler would draw none; here all of them take part, and nobody accounts for it."""

    def units(self, crossing: Crossing, name: str, use: int, count: int, noise: Any, due: Units | None = None) -> Units:
        """All."""
        return np.arange(count)

    def placed(self, pages: Pages, units: Units, ordered: bool, noise: Any) -> Units:
        """On the first page."""
        return pages.in_order(units)


class Stage:
    """Behind a barrier, with made-up records behind it, for a method that only tries itself out."""

    def __init__(self, plan: Plan, run: Run, later: tuple[str, ...] = ()) -> None:
        self.spec = plan.data
        self.odometer = Odometer(plan)
        self.watch = Stopwatch()
        self._box = made_up(plan.data, np.random.default_rng(0), RECORDS).box(plan.data)
        # Pages have the shape of the real run, so that memory is tried too; on a CPU that would take minutes.
        self._rows = min(run.microbatch, ROWS) if run.device == "cpu" else run.microbatch
        self._wider = min(run.microbatch, WIDE) if run.device == "cpu" else self._rows
        self._real = self._inside(self._rows, run.device, self.odometer)
        self._wide = self._inside(self._wider, run.device, Odometer(plan))
        self._twice = self._inside(2 * ROWS, run.device, Odometer(plan))
        self._narrow = self._inside(ROWS, run.device, Odometer(plan))
        self._microbatch = run.microbatch
        self.scales = Scales(run.device)
        self.noise = self._real.noise
        self._later = later
        self._device = run.device
        self.barrier = Barrier.before(self)
        self._asked: Counter[str] = Counter()
        self._updates = 0
        self._quick: set[str] = set()  # crossings of which a narrow page takes less than a moment
        self._shares: dict[Any, float] = {}  # parts of the run for each one that is held here
        self._mapped: set[Any] = set()

    def _inside(self, rows: int, device: str, odometer: Odometer) -> Inside:
        return Inside(self._box, self.spec, odometer, device=device, microbatch=rows, lot=_Everybody())

    def expected(self) -> Expected:
        """What the run that it stands for will take."""
        return Expected(self.watch.expected, self.scales.found())

    @property
    def complete(self) -> bool:
        """Whether every crossing was tried, but for those that are asked for after learning."""
        return all(used or name in self._later for name, used in self.odometer.used.items())

    def hold(self, model: Any, parts: int) -> Any:
        """As a barrier does, for as many parts as are worked on at once; on a CPU that would take minutes."""
        some = PARTS if self._device == "cpu" else model.block(parts, self._device)
        some = max(1, min(parts, some))
        held = self._real.hold(model, some)
        self._shares[held] = parts / some
        self.scales.held += self._real.size(held) * parts / some
        return held

    def train(self, held: Any, *public: Any) -> None:
        """As a barrier does, but no long warm-up: a second update shows nothing that the first did not."""
        if self._updates < UPDATES:
            with self.watch.behind(self._shares[held]):
                self._real.train(held, *public)
        else:
            self.watch.again()
        self._updates += 1

    def release(self, name: str, query: Any, *public: Any) -> Tensor:
        """As a barrier does, until every crossing was tried."""
        if self._asked[name] >= USES and self.complete:
            raise _Seen
        self._asked[name] += 1
        self._updates = 0
        if isinstance(query, PartitionSum):
            with self.watch.behind(self._shares[query.held]):
                return self._real.release(name, query, *public)
        self._time_map(getattr(query, "sees", None))
        if self._asked[name] == 1 and self._device != "cpu":
            self._weigh(name, query, public)  # before all of a page is tried, which may fail
        wide = name in self._quick
        read = self.odometer.plan.crossings[name].share * self.spec.records
        with self.watch.behind(read / (self._wider if wide else self._rows)):
            answer = (self._wide if wide else self._real).release(name, query, *public)
        if self.watch.last < MOMENT:
            self._quick.add(name)
        if self._asked[name] == 1 and self._device == "cpu":  # after it, which has warmed things up
            self._weigh(name, query, public)
        return answer

    def _weigh(self, name: str, query: Any, public: tuple[Any, ...]) -> None:
        """The memory of pages at two widths, without that of their noise."""
        if isinstance(query, BatchValue):
            return  # which has no pages
        crossing = self.odometer.plan.crossings[name]
        of = pages_of(crossing, self.spec, self._microbatch).rows
        for side in (self._narrow, self._wide if name in self._quick and self._device == "cpu" else self._twice):
            with self.scales.page(name, pages_of(crossing, self.spec, side.sums.microbatch).rows, of), apart():
                side.total(name, crossing, query, public)

    def _time_map(self, sees: Any) -> None:
        """A fixed map of single images is computed once for each record of a run; here twice, for its pace."""
        if sees is None or sees in self._mapped:
            return
        self._mapped.add(sees)
        kept = 2.0 * self.spec.records * sees.width
        self.scales.features += kept if kept <= REMEMBERED else 0.0
        page = torch.zeros(self._wider, *self.spec.shape, device=self._device)
        for _ in self.watch.paced(self.spec.records / self._wider, iter(range(2))):
            sees(page)


@dataclass
class Rehearsing(Run):
    """A run that takes the first two steps of each loop, and of each stage of it; the second gives the pace."""

    previews: ClassVar[bool] = False
    watch: Stopwatch = field(default_factory=Stopwatch)

    def steps(self, total: int, *, stages: Sequence[int] = (), **state: Any) -> Iterator[int]:
        """The first step numbers."""
        starts = sorted({step for step in (0, *stages) if step < total})
        for start, end in itertools.pairwise([*starts, total]):
            yield from self.watch.paced(end - start, iter(range(start, min(start + 2, end))))

    def rounds(self, total: int) -> Iterator[int]:
        """The first rounds of a loop over public or released values."""
        return self.watch.paced(total, iter(range(min(2, total))))


def rehearse(
    method: Any,
    plan: Plan,
    run: Run,
    public: Any = None,
    *,
    later: tuple[str, ...] = (),
    after: Callable[[Stage, Any, Run], None] = lambda stage, learned, run: None,
) -> Expected:
    """Learn briefly from made-up records as `run` would, then do `after` with what was learned.

    `later` names crossings that `after` makes. What learning will take in earnest.
    """
    stage = Stage(plan, run, later)
    with trying(plan, run.device, run.microbatch, stage.scales), settled_briefly():
        brief = Rehearsing(
            device=run.device, seed=run.seed, microbatch=run.microbatch, odometer=stage.odometer, watch=stage.watch
        )
        try:
            learned = method.learn(stage.barrier, brief, **({} if public is None else {"public": public}))
        except _Seen:
            return stage.expected()
        after(stage, learned, brief)
        return stage.expected()


@contextmanager
def trying(plan: Plan, device: str, microbatch: int, scales: Scales | None = None) -> Iterator[None]:
    """Turn whatever goes wrong in a rehearsal into one sentence: nothing was spent yet."""
    try:
        yield
    except SfumatoError:
        raise
    except ImportError as error:
        package = (error.name or str(error)).partition(".")[0]
        raise InputError(
            f"{plan.method} needs the package '{package}', which cannot be imported ({error}); "
            "install it and try again."
        ) from error
    except Exception as error:
        if no_memory(error):
            memory = None if scales is None else scales.found()
            if memory and not memory.fits:
                raise InputError(memory.refusal(plan.method, microbatch)) from error
            cpu = "" if device == "cpu" else ", or choose --device cpu"
            raise InputError(
                f"There is not enough memory on {device} for {plan.method} with --microbatch {microbatch}; lower "
                f"--microbatch or the method's own sizes{cpu}. Nothing was spent."
            ) from error
        if isinstance(error, OSError):
            where = error.filename or os.fspath(tempfile.gettempdir())
            raise InputError(
                f"{where} cannot be used ({error.strerror or error}); free some space or mend its "
                "permissions. Nothing was spent."
            ) from error
        shape = "x".join(map(str, plan.data.shape))
        raise InputError(
            f"{plan.method} fails on made-up images of {shape} with these settings ({type(error).__name__}: {error}); "
            "choose others. Nothing was spent."
        ) from error


def no_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch has no one exception for it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and re.search("allocate memory|out of memory", str(error)) is not None


@contextmanager
def elsewhere() -> Iterator[Path]:
    """A folder that does not exist yet, in one that is thrown away: for writing what nobody will read."""
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "release"
