"""Whether two watched runs of a method did the same to the bit, as far as anybody outside can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sfumato.audit.crossings import contributions
from sfumato.audit.replay import Placed, Replay
from sfumato.audit.watch import Action, Asked, Made, Opened, Seen, made_up
from sfumato.measure.gradients import ClippedGradient
from sfumato.privacy.held import PartSum
from sfumato.privacy.plan import Plan


def equal(one: Seen, two: Seen) -> bool:
    """Whether weights, public arguments of all crossings and what the queries compute agree bit by bit."""
    if (one.weights is None) != (two.weights is None):
        return False
    if one.weights is not None and two.weights is not None:
        same = one.weights.keys() == two.weights.keys()
        if not same or not all(torch.equal(one.weights[k], two.weights[k]) for k in one.weights):
            return False
    logs = one.barrier.log, two.barrier.log
    if len(logs[0]) != len(logs[1]) or not all(map(_done_alike, *logs)):
        return False
    return all(_alike(a, b) for a, b in zip(_probed(one), _probed(two), strict=True))


def _done_alike(one: Action, two: Action) -> bool:
    """Whether two requests to the barrier are of one kind, with the same public values."""
    if isinstance(one, Opened) or isinstance(two, Opened):
        return isinstance(one, Opened) and isinstance(two, Opened) and one.parts == two.parts
    return type(one) is type(two) and _alike(one.public, two.public)


def _probed(seen: Seen) -> list[Any]:
    """What the queries compute on the same few records, once learning is over: a value kept inside would show."""
    if "probed" not in seen.notes:
        probe, last = made_up(seen.barrier.spec, np.random.default_rng(17), 3), {a.name: a for a in seen.barrier.asked}
        # The last use of held parts repeats those before it.
        asked = [a for a in kinds(seen) if not isinstance(a.query, PartSum) or a is last[a.name]]
        seen.notes["probed"] = [_answers(a, seen.barrier.ledger.plan, probe) for a in asked]
    return list(seen.notes["probed"])


def _answers(asked: Asked, plan: Plan, probe: Made) -> Any:
    if not isinstance(asked.query, PartSum):
        return contributions(asked.still, probe, asked.public)
    return [torch.from_numpy(part) for part in Replay(asked, plan).teachers(Placed(probe, plan.budget.relation))]


def _alike(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(two, torch.Tensor) and torch.equal(one, two)
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(_alike(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return isinstance(two, list | tuple) and len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, torch.nn.Module):
        return isinstance(two, torch.nn.Module) and _alike(one.state_dict(), two.state_dict())
    return bool(one == two) if isinstance(one, int | float | str | bool | None) else True


def same_gradient(one: Asked, two: Asked) -> bool:
    """Whether two uses are one question: its network is now what training has left of it, whenever it was asked."""
    return isinstance(one.query, ClippedGradient) and one.query is two.query and _alike(one.public, two.public)


def kinds(seen: Seen) -> list[Asked]:
    """The first and the last use of each crossing."""
    first = {a.name: a for a in reversed(seen.barrier.asked)}
    last = {a.name: a for a in seen.barrier.asked}
    return [*first.values(), *(a for n, a in last.items() if a is not first[n])]
