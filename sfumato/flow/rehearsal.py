"""A rehearsal: all that can fail for want of a file, a package, a shape, memory or public data fails before money does.

The very method with the very public data learns on the device of the run, for a step, from a few made-up records of
the shape of the data. Then it makes a few images, and they are written somewhere and thrown away. No private record
is near: the barrier is one of its own, with an odometer of its own.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sfumato.audit.recording.recording_barrier import made_up
from sfumato.errors import InputError, SfumatoError
from sfumato.networks.generator import settled_briefly
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.inside import Inside, Lot, Units
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.pages import Pages
from sfumato.privacy.plan import Crossing, Plan
from sfumato.run.run import Run

RECORDS = 4
IMAGES = 2  # that a generator makes at the end
PARTS = 8  # of held ones on a CPU; elsewhere a block of them, which is what must fit into memory
ROWS = 32  # of a page on a CPU
USES = 8  # of one crossing, once all of them were tried
UPDATES = 1  # of held parts between two questions


class _Seen(BaseException):
    """Every crossing was tried; no `except Exception` of a method stops this one."""


class _Everybody(Lot):
    """Of so few records a sampler would draw none; here all of them take part, and nobody accounts for it."""

    def units(self, crossing: Crossing, name: str, use: int, count: int, noise: Any) -> Units:
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
        box = made_up(plan.data, np.random.default_rng(0), RECORDS).box(plan.data)
        # Pages have the shape of the real run, so that memory is tried too; on a CPU that would take minutes.
        rows = min(run.microbatch, ROWS) if run.device == "cpu" else run.microbatch
        self._real = Inside(box, plan.data, self.odometer, device=run.device, microbatch=rows, lot=_Everybody())
        self.noise = self._real.noise
        self._later = later
        self._device = run.device
        self.barrier = Barrier.before(self)
        self._asked: Counter[str] = Counter()
        self._updates = 0

    @property
    def complete(self) -> bool:
        """Whether every crossing was tried, but for those that are asked for after learning."""
        return all(used or name in self._later for name, used in self.odometer.used.items())

    def hold(self, recipe: Any, parts: int) -> Any:
        """As a barrier does, for as many parts as are worked on at once; on a CPU that would take minutes."""
        some = PARTS if self._device == "cpu" else recipe.block(parts, self._device)
        return self._real.hold(recipe, max(1, min(parts, some)))

    def train(self, held: Any, *public: Any) -> None:
        """As a barrier does, but no long warm-up: a second update shows nothing that the first did not."""
        if self._updates < UPDATES:
            self._real.train(held, *public)
        self._updates += 1

    def release(self, name: str, query: Any, *public: Any) -> Tensor:
        """As a barrier does, until every crossing was tried."""
        if self._asked[name] >= USES and self.complete:
            raise _Seen
        self._asked[name] += 1
        self._updates = 0
        return self._real.release(name, query, *public)


@dataclass
class Rehearsing(Run):
    """A run that takes the first step of each loop, and of each stage of it."""

    previews: ClassVar[bool] = False

    def steps(self, total: int, *, stages: Sequence[int] = (), **state: Any) -> Iterator[int]:
        """The first step numbers."""
        yield from sorted({step for step in (0, *stages) if step < total})

    def rounds(self, total: int) -> range:
        """One round of a loop over public or released values."""
        return range(min(1, total))


def rehearse(
    method: Any,
    plan: Plan,
    run: Run,
    public: Any = None,
    *,
    later: tuple[str, ...] = (),
    after: Callable[[Stage, Any, Run], None] = lambda stage, learned, run: None,
) -> None:
    """Learn briefly from made-up records as `run` would, then do `after` with what was learned.

    `later` names crossings that `after` makes.
    """
    with trying(plan, run.device, run.microbatch), settled_briefly():
        stage = Stage(plan, run, later)
        brief = Rehearsing(device=run.device, seed=run.seed, microbatch=run.microbatch, odometer=stage.odometer)
        try:
            learned = method.learn(stage.barrier, brief, **({} if public is None else {"public": public}))
        except _Seen:
            return
        after(stage, learned, brief)


@contextmanager
def trying(plan: Plan, device: str, microbatch: int) -> Iterator[None]:
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
