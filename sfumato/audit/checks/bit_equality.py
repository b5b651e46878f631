"""Whether two recorded runs of a method did the same to the bit, as far as anybody outside can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sfumato.audit.recording.crossings import contributions
from sfumato.audit.recording.recording_barrier import Action, Asked, MadeUp, Opened, Seen, made_up
from sfumato.audit.recording.replay import Placed, Replay
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Plan


def difference(one: Seen, two: Seen) -> str | None:
    """What differs, to the bit, of all that leaves two runs and of what their queries compute; None if nothing does."""
    if one.barrier.shapes != two.barrier.shapes:
        return "number, order or shapes of the releases"
    if type(one.error) is not type(two.error) or str(one.error) != str(two.error):
        return "what went wrong"
    for what in one.left.keys() | two.left.keys():
        if what not in one.left or what not in two.left or not bit_equal(one.left[what], two.left[what]):
            return what
    if not bit_equal(one.weights, two.weights):
        return "weights or buffers"
    logs = one.barrier.log, two.barrier.log
    if len(logs[0]) != len(logs[1]) or not all(map(_same_request, *logs)):
        return "what was asked"
    if not all(bit_equal(a, b) for a, b in zip(_probed(one), _probed(two), strict=True)):
        return "what the queries compute afterwards"
    return None


def _same_request(one: Action, two: Action) -> bool:
    """Whether two requests to the barrier are of one kind, with the same public values."""
    if isinstance(one, Opened) or isinstance(two, Opened):
        return isinstance(one, Opened) and isinstance(two, Opened) and one.parts == two.parts
    return type(one) is type(two) and bit_equal(one.public, two.public)


def _probed(seen: Seen) -> list[Any]:
    """What the queries compute on the same few records, once learning is over: a value kept inside would show."""
    if "probed" not in seen.notes:
        probe = made_up(seen.barrier.spec, np.random.default_rng(17), 3)
        last = {a.name: a for a in seen.barrier.asked}
        # The last use of held parts repeats those before it.
        asked = [a for a in kinds(seen) if not isinstance(a.query, PartitionSum) or a is last[a.name]]
        seen.notes["probed"] = [_answers(a, seen.barrier.odometer.plan, probe) for a in asked]
    return list(seen.notes["probed"])


def _answers(asked: Asked, plan: Plan, probe: MadeUp) -> Any:
    if not isinstance(asked.query, PartitionSum):
        return contributions(asked.frozen, probe, asked.public, asked.device)
    return [torch.from_numpy(part) for part in Replay(asked, plan).teachers(Placed(probe, plan.budget.relation))]


def bit_equal(one: Any, two: Any) -> bool:
    """Equal to the bit, as far down as they can be taken apart."""
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.dtype == two.dtype and np.array_equal(one, two)
    if isinstance(one, torch.Tensor):
        return isinstance(two, torch.Tensor) and one.dtype == two.dtype and _bits(one) == _bits(two)
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(bit_equal(one[k], two[k]) for k in one)
    if isinstance(one, set | bytes):
        return bool(one == two)
    if isinstance(one, list | tuple):
        return isinstance(two, list | tuple) and len(one) == len(two) and all(map(bit_equal, one, two))
    if isinstance(one, torch.nn.Module):
        return isinstance(two, torch.nn.Module) and bit_equal(one.state_dict(), two.state_dict())
    return bool(one == two) if isinstance(one, int | float | str | bool | None) else True


def _bits(value: torch.Tensor) -> tuple[torch.Size, bytes]:
    """Shape and bytes: what is no number is equal to itself here."""
    return value.shape, value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def same_gradient(one: Asked, two: Asked) -> bool:
    """Whether two uses are one question: its network is now what training has left of it, whenever it was asked."""
    a, b = one.query, two.query
    if not (isinstance(a, ClippedGradient) and isinstance(b, ClippedGradient)):
        return False
    # Only the randomness of its examples is another one at each step.
    return a.net is b.net and a.loss is b.loss and a.clip == b.clip and bit_equal(one.public, two.public)


def kinds(seen: Seen) -> list[Asked]:
    """The first and the last use of each crossing."""
    first = {a.name: a for a in reversed(seen.barrier.asked)}
    last = {a.name: a for a in seen.barrier.asked}
    return [*first.values(), *(a for n, a in last.items() if a is not first[n])]
