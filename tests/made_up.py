"""Small made-up data and plans that several tests share."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Budget, DataSpec, InputError, load
from sfumato.errors import in_python
from sfumato.privacy.bounds import Bound
from sfumato.privacy.plan import Plan, crossing


def arrays(n=60, size=8, classes=3, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (n, size, size), dtype=np.uint8), np.arange(n) % classes


def box(n=60, size=8, classes=3, seed=0, person=None, **options):
    images, labels = arrays(n, size, classes, seed)
    return load((images, labels) if person is None else (images, labels, person), **options)


def plan(spec: DataSpec | None = None, budget: Budget | None = None, **crossings) -> Plan:
    spec = spec or DataSpec("made up", 60, (1, 8, 8), ("a", "b", "c"))
    return Plan("test", {}, spec, budget or Budget(1.0), crossings or {"sum": crossing(Bound(1.0), 1.0)})


def expects(source, says: str, **options) -> None:
    """`load` refuses the source with a sentence that matches, which says Python's arguments for options."""
    with pytest.raises(InputError, match=in_python(says)):
        load(source, **options)
