"""Three uneven, class-skewed sites of 60 made-up records, and a coordinator in the same process."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sfumato import Run, load
from sfumato.federation.agreement import Agreement
from sfumato.federation.coordinator import Federation
from sfumato.federation.site import at_site
from sfumato.federation.transport import InProcess
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.inside import Lot
from sfumato.privacy.noise import REKEY_BYTES, Noise, _chacha20
from sfumato.types import DataSpec
from tests.made_up import arrays
from tests.methods.test_contract import TINY

RECORDS = {"north": 40, "south": 17, "isle": 3}
SHORT = {"steps": 3}
SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))


class Tape(Noise):
    """The same noise each time, another one for each number."""

    def __init__(self, number=0):
        self.number = number
        super().__init__()

    def _rekey(self):
        self._owner, self._left = os.getpid(), REKEY_BYTES
        self._name, self._stream = "a tape", _chacha20(self.number.to_bytes(32, "big"))


class Silence(Tape):
    """No noise at all; samples and keys are those of the tape."""

    def discrete_gaussian(self, sigma, shape):
        return np.zeros(shape, np.int64)


class Everyone(Lot):
    """No draw: all take part."""

    def units(self, crossing, name, use, count, noise):
        return np.arange(count)


def agreement(method="kernel-votes", settings=None, records=RECORDS, epsilon=5.0, **changes):
    short = {name: SHORT.get(name, value) for name, value in TINY[method].items()}
    given = {name: str(value) for name, value in short.items()} | (settings or {})
    return Agreement(SPEC, records, method, epsilon, given, "uniform", **changes)


def split(seed=0):
    """The records of each site: the first has most of the first classes, and the last one class alone."""
    pixels, labels = arrays(seed=seed)
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum([0, *RECORDS.values()])
    parts = zip(RECORDS, ends[:-1], ends[1:], strict=True)
    return {name: (pixels[order[first:last]], labels[order[first:last]]) for name, first, last in parts}


def boxed(name, seed=0):
    return load(split(seed)[name] if name in RECORDS else arrays(seed=seed))


@contextmanager
def sites(agreed, ledger=None, seeds=None, resume=None, **how):
    """All sites behind a transport in one process, each with a ledger of its own."""
    with ExitStack() as stack:
        found = {}
        books = Path(ledger or stack.enter_context(TemporaryDirectory()))
        for name in agreed.sites:
            mine = {key: value(name) if callable(value) else value for key, value in how.items()}
            box = boxed(name, (seeds or {}).get(name, 0))
            mine |= {"ledger": books / f"{name}.sqlite", "resume": (resume or {}).get(name)}
            found[name] = stack.enter_context(at_site(agreed, name, box, **mine))
        yield InProcess(found)


def learn(agreed, transport, folder=None, **how):
    """A whole run; the generator, and the federation behind it."""
    far = Federation(agreed, transport, folder, **how)
    far.join()
    run = Run(device="cpu", odometer=far.odometer, folder=folder, every=0.0)
    found = agreed.made.learn(Barrier.before(far), run)
    run.finished()
    return found, far
