"""Noise that later uses take back in part, as an auditor sees it: what it took back put in again, and classes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from sfumato.audit.recording.replay import KEY, named_records
from sfumato.audit.recording.subject import Array
from sfumato.data.private import PrivateImages
from sfumato.privacy.banded import ONE
from sfumato.privacy.cycle import Cycle, cycles_of
from sfumato.privacy.inside import Inside
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Crossing, Plan
from sfumato.privacy.samplers import CyclicPoisson


class Plain:
    """Answers in the order of their uses, each with what it took back put in again: y = C a, whose noise is Z."""

    def __init__(self, crossing: Crossing) -> None:
        banded = isinstance(crossing.mechanism, BandedGaussian)
        self._c = np.array(crossing.mechanism.matrix.coefficients if banded else (ONE,)) / ONE  # type: ignore[union-attr]
        self._past: deque[Array] = deque(maxlen=len(self._c))

    def __call__(self, answer: Array) -> Array:
        """The next one."""
        if len(self._c) == 1:
            return answer
        self._past.appendleft(answer)
        return np.asarray(sum(c * a for c, a in zip(self._c, self._past, strict=False)))


def classes_of(name: str, plan: Plan) -> Callable[[Sequence[bytes]], list[frozenset[int]]] | None:
    """The class of units that are known by names, where classes take turns."""
    sampler = plan.crossings[name].sampler
    if not isinstance(sampler, CyclicPoisson):
        return None

    def classes(names: Sequence[bytes]) -> list[frozenset[int]]:
        records, _ = named_records(plan.data, names)
        inside = Inside(PrivateImages(plan.data, records), plan.data, Odometer(plan))
        cycles_of(inside.odometer)[name] = Cycle(KEY)
        return [frozenset({int(c)}) for c in inside.classes(name, sampler)]

    return classes
