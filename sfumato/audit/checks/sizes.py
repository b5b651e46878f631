"""Whether the method that is audited is the one that will run: at another size, but in every way the same.

A method is recorded at its `small()` size, under the plan of the real one: names, bounds, mechanisms, samplers and held
parts of its crossings are those of that plan, and the barrier refuses any other. What is left to compare are settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sfumato.audit.recording.recording_barrier import Seen
from sfumato.audit.recording.subject import Finding
from sfumato.privacy.bounds import BoundedSum, IntegerBound
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Plan

LARGER = 1000  # times as many records, among which a method may draw where it now takes all


def shrunk(method: Any, small: Any) -> Finding:
    """Sizes may shrink, to no less than one; words, switches and all else stay, but for a public network's name."""
    if not (is_dataclass(method) and is_dataclass(small)) or type(small) is not type(method):
        same = type(small) is type(method)
        said = "the very settings of a run" if same else f"an audit would look at another class, {type(small).__name__}"
        return Finding("small size", 0, same, said)
    changed = [(f.name, getattr(method, f.name), getattr(small, f.name)) for f in fields(method)]
    changed = [(name, was, is_) for name, was, is_ in changed if was != is_]
    declared = getattr(method, "stand_ins", ())
    for name, was, is_ in changed:
        if not _size(was, is_) and name not in declared:
            said = f"small() turns {name}={was} into {name}={is_}, which may be another path through the code"
            return Finding("small size", 0, False, said)
    others = [f"{name}={is_} in place of {was}" for name, was, is_ in changed if name in declared]
    sizes = ", ".join(name for name, _, _ in changed if name not in declared)
    told = f"smaller: {sizes}" if sizes else "the very settings of a run"
    return Finding("small size", 0, True, told + "".join(f"; not looked at: {other}" for other in others))


def _size(was: Any, is_: Any) -> bool:
    """A number that shrank; to 0 would be to switch something off."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (was, is_))
    return numbers and 0 < is_ <= was


def at_work(method: Any, plan: Plan, seen: Seen, elsewhere: bool) -> Finding:
    """What is declared and does nothing at the size that was audited; `elsewhere`, a run may be of another size."""
    idle = [*_ballots(plan, seen), *(_unsampled(method, plan) if elsewhere else ())]
    said = "; ".join(idle) if idle else "what the noisy queries declare is at work at this size"
    return Finding("settings at work", 0, True, said)


def _ballots(plan: Plan, seen: Seen) -> Iterator[str]:
    """Ballots that may fill every place: a choice of the largest, or a limit to so many, is not seen then."""
    for asked in {a.name: a for a in seen.barrier.asked}.values():
        bound = plan.crossings[asked.name].bound
        if not isinstance(bound, IntegerBound) or bound.coordinates is not None:
            continue  # declared coordinates are the ballot's own
        if not isinstance(asked.query, BoundedSum | PartitionSum):
            continue  # nothing else votes
        places = math.prod(asked.query.shape)
        if bound.most >= places:
            held = "a part" if isinstance(asked.query, PartitionSum) else "a unit"
            yield f"{asked.name}: {held} may fill all {places} places, so that no limit to {bound.most} is seen"


def _unsampled(method: Any, plan: Plan) -> Iterator[str]:
    """Crossings that take everyone here, and a sample of a larger set."""
    asked = [n for n, c in plan.crossings.items() if c.sampler.rate == 1 and c.times > 1 and not c.held]
    if not asked:
        return
    try:
        larger = method.plan(replace(plan.data, records=LARGER * plan.data.records), plan.budget)
    except Exception:  # no such plan, and so nothing to be missed
        return
    for name in asked:
        if name in larger.crossings and larger.crossings[name].sampler.rate < 1:
            yield f"{name}: all {plan.data.records} records take part in each use, so that no sampling is seen"
