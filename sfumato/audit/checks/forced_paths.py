"""Ways that only large runs take, forced upon small ones: what size decides must not go unseen.

Blocks of parts that do not fit and are put on a disk; pages of a few records; the other form of a gradient's norm; two
ranks; noise drawn on the device. Sums must come out as they do by the usual ways, and neighbours may move them no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from sfumato.accounting.budget import Relation
from sfumato.audit.checks import level0, noise_checks
from sfumato.audit.checks.bit_equality import bit_equal
from sfumato.audit.recording.crossings import claims
from sfumato.audit.recording.parts import votes_subject
from sfumato.audit.recording.recording_barrier import CHANGED, Seen, opened, without_unit
from sfumato.audit.recording.subject import Finding, Random, Subject
from sfumato.engine.gradients import ghost
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.inside import Sums
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import Partitions, PartitionSum
from sfumato.privacy.plan import Plan

# of a page, and of training
ROWS = 5
STEPS = 2
BLOCK = 2  # parts in a block
ROUNDING = 0.02  # of the sensitivity, by which sums may differ between two right ways: a rounding may turn a sign
DRAWS = 3000  # of noise on a device, each with a key of its own
WIDE = (40, 50)  # of an answer that looks at the noise of a device


def _open_few(opening: Callable[..., Any]) -> Callable[..., Any]:
    return lambda parts, key, block: opening(parts, key, min(block, BLOCK))


@contextmanager
def forced() -> Iterator[None]:
    """All of them at once, but for the noise."""
    usual = ghost.gram
    opening = Partitions._open
    with ExitStack() as stack:
        for what, how in {
            "sfumato.audit.recording.recording_barrier.MICROBATCH": ROWS,
            "sfumato.audit.recording.recording_barrier.STEPS": STEPS,
            "sfumato.audit.recording.recording_barrier.USES": STEPS,
            "sfumato.engine.gradients.per_example.ROOM": 1,  # rows that are formed come one by one
            "sfumato.privacy.block_store._free": lambda device: 0.0,
            "sfumato.engine.gradients.ghost.gram": lambda sizes: not usual(sizes),
            "sfumato.privacy.partitions.Partitions._open": _open_few(opening),
            "sfumato.audit.recording.recording_barrier.RANKS": _Two,
        }.items():
            stack.enter_context(patch(what, how))
        yield


class _Two:
    """Two ranks in one process: the first has its pages, and adds up what the other's would give."""

    rank = 0
    size = 2
    first = True

    def __init__(self) -> None:
        self._rest: np.ndarray | None = None
        self._last: tuple[Any, ...] | None = None

    def owns(self, block: int) -> bool:
        """All blocks of parts: they are dealt out by the same rule, and their states would have to be held twice."""
        return True

    def share(self, pages: np.ndarray) -> np.ndarray:
        """Every other page."""
        self._rest = pages[1::2]
        return pages[::2]

    def told_of(self, sums: Sums, name: str, query: Any, units: int, public: tuple[Any, ...]) -> None:
        """What the other rank is asked."""
        self._last = (sums, name, query, units, public)

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """Both together."""
        if self._rest is None or self._last is None:
            return value
        sums, name, query, units, public = self._last
        rest = self._rest
        self._rest = None
        others: torch.Tensor = sums.total(name, query, rest, units, public)
        return value + others

    def same(self, value: torch.Tensor) -> torch.Tensor:
        """The first rank's."""
        return value


def paths(recorded: Any, sums: Any) -> list[Finding]:
    """A method by the forced ways, on the records and without one of them; `sums` compares two runs."""
    plan = recorded.plan
    with forced():
        one = recorded.learn(recorded.records)
        two = recorded.learn(without_unit(recorded.records, CHANGED))
    for run in (one, two):
        if run.error is not None:
            said = f"it ended with {type(run.error).__name__}: {run.error}"[:300]
            return [Finding("forced paths", 0, False, said)]
    findings = [replace(sums(plan, one, two, "removed", Relation.ADD_REMOVE), check="forced paths")]
    return [*findings, *_teachers(plan, one, recorded.seed), _agree(plan, recorded.seen, one)]


def _teachers(plan: Plan, seen: Seen, seed: int) -> list[Finding]:
    """Held parts as they did by the forced ways, on other records: one of these moves one part, to the bit."""
    last = {a.name: a for a in seen.barrier.asked if isinstance(a.query, PartitionSum)}
    with forced():
        subjects = [votes_subject(asked, plan, ("random",)) for asked in last.values()]
        findings = [level0.other_teachers(subject, np.random.default_rng(seed)) for subject in subjects]
    return [replace(f, check="forced paths") for f in findings if f is not None]


def _agree(plan: Plan, seen: Seen, other: Seen) -> Finding:
    """Sums by the usual ways and by the forced ones; held parts begin elsewhere in other blocks."""
    furthest = 0.0
    for one, two in zip(seen.barrier.asked, other.barrier.asked, strict=False):
        if (one.name, one.use) != (two.name, two.use) or not bit_equal(one.public, two.public):
            break  # from here on the shorter run is another one, or what is public has rounded otherwise
        if isinstance(one.query, PartitionSum) or one.exact is None or two.exact is None:
            continue
        unit = plan.crossings[one.name].event(plan.budget.relation, 1).sensitivity
        furthest = max(furthest, float((one.exact - two.exact).norm()) / unit)
    said = f"sums by the ways of large runs are up to {furthest:.3g} sensitivities from the usual ones"
    return Finding("paths agree", 0, furthest <= ROUNDING, said)


def device_noise(plan: Plan, random: Random) -> list[Finding]:
    """The noise as a GPU draws it, by the same generator on this machine; where the plan has noise of that kind."""
    name = next((n for n, c in plan.crossings.items() if c.mechanism.kind == "gaussian"), None)
    if name is None:
        return []
    crossing = plan.crossings[name]
    barrier = Barrier(None, plan.data, Odometer(opened(plan)))
    noise = behind(barrier).noise
    noise._fast = True

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        return crossing.mechanism(torch.zeros(shape, dtype=torch.float64), crossing.bound, noise).numpy()

    subject = Subject(name=name, release=lambda nothing: draw(WIDE), nothing=(None,), **claims(name, plan))
    findings = [*noise_checks.calibration(subject, random), _keys([draw((4,)).tobytes() for _ in range(DRAWS)])]
    return [replace(f, check=f"device {f.check}") for f in findings]


def _keys(drawn: list[bytes]) -> Finding:
    """Keys of few bits meet: of 3000 among 2^16 some 70 pairs do."""
    met = len(drawn) - len(set(drawn))
    return Finding("noise keys", 0, met == 0, f"{met} of {len(drawn)} draws of noise came twice")
