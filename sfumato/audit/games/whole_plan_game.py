"""Level 2 for any method: all of its crossings, with one canary unit present or absent.

Where parts vote, the canary is a whole part, of which the guarantee speaks too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from sfumato.accounting import accountant
from sfumato.accounting.accountant import Profile
from sfumato.accounting.budget import Relation
from sfumato.audit.checks.frozen_draws import FrozenDraws, marked
from sfumato.audit.games.end_to_end import likelihood
from sfumato.audit.games.turns_game import play_turns
from sfumato.audit.recording.crossings import KINDS, everyone
from sfumato.audit.recording.gradients import as_canary
from sfumato.audit.recording.parts import play_votes
from sfumato.audit.recording.recording_barrier import Asked, MadeUp, few, made_up, opened, with_unit, without_unit
from sfumato.audit.recording.subject import Array, Random
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan

VALUES = 3e7  # noise values drawn in whole releases; beyond that, along the canary alone
RELEASES = 20_000  # whole releases of one crossing
GRADIENTS = 1000  # those of gradients, which take longer
CALLS = 24_000  # draws of a sampler
USES = 5e6  # uses in all runs together


@dataclass(frozen=True, eq=False)
class Whole:
    """The canary alone in the data against no data (or against its opposite, where records are replaced)."""

    plan: Plan
    asked: Mapping[str, Asked]
    one: MadeUp
    two: MadeUp
    runs: int

    @property
    def used(self) -> dict[str, int]:
        """Uses that are played: all, or as many as time allows; the claim is that of these."""
        most = {n: int((CALLS if self._sampled(n) else USES) // self.runs) for n in self.asked}
        asked = {n: self.plan.crossings[n] for n in self.asked}
        return {n: min(c.times, c.cycle * max(1, most[n])) for n, c in asked.items()}

    def _sampled(self, name: str) -> bool:
        return self.plan.crossings[name].sampler.rate < 1

    @property
    def profile(self) -> Profile:
        """The claim of what is played."""
        return accountant.profile(self.plan.events(used=self.used))

    def play(self, present: bool, runs: int) -> Array:
        """The likelihood of the canary over all uses of all crossings."""
        return sum((self._crossing(name, times, present, runs) for name, times in self.used.items()), np.zeros(runs))

    def _crossing(self, name: str, times: int, present: bool, runs: int) -> Array:
        if self.plan.crossings[name].held:
            return play_votes(self.asked[name], self.plan, times, present, runs)
        one = self.exact(name, self.one)
        two = self.exact(name, self.two)
        gap = float(np.linalg.norm(two - one))
        if gap == 0:
            return np.zeros(runs)
        direction = (two - one) / gap
        if self.plan.crossings[name].cycle > 1:
            return play_turns(name, self.plan, float(((two if present else one) * direction).sum()), gap, times, runs)
        most = GRADIENTS if isinstance(self.asked[name].query, FrozenDraws) else RELEASES
        whole = one.size * runs * times <= VALUES and runs * times <= most
        draw = self._released if whole else self._along
        along = draw(name, present, direction, runs * times).reshape(runs, times) - float((one * direction).sum())
        c = self.plan.crossings[name]
        if c.sampler.rate < 1 and self.plan.budget.relation is Relation.REPLACE_ONE:
            return np.asarray(along.sum(1), dtype=np.float64)
        ratios = likelihood(along, gap, c.mechanism.std(c.bound), c.sampler.rate)
        return np.asarray(ratios.sum(1), dtype=np.float64)

    def _barrier(self, records: MadeUp) -> Barrier:
        plan = opened(self.plan)
        spec = few(self.plan.data)
        return Barrier(records.box(spec), spec, Odometer(plan), microbatch=64, device=self._device)

    @property
    def _device(self) -> str:
        return next(iter(self.asked.values())).device

    def exact(self, name: str, records: MadeUp) -> Array:
        """The answer before noise, if everyone takes part."""
        return everyone(self.asked[name], opened(self.plan), records).cpu().numpy()

    def _released(self, name: str, present: bool, direction: Array, count: int) -> Array:
        """Whole releases through the real barrier."""
        barrier = self._barrier(self.two if present else self.one)
        asked = self.asked[name]
        u = direction.ravel()
        return np.array(
            [barrier.release(name, asked.query, *asked.public).cpu().numpy().ravel() @ u for _ in range(count)]
        )

    def _along(self, name: str, present: bool, direction: Array, count: int) -> Array:
        """The real sampler and mechanism on lengths along the canary."""
        c = self.plan.crossings[name]
        records = self.two if present else self.one
        inner = behind(self._barrier(records))
        full = float((self.exact(name, records) * direction).sum())
        units = inner.sums.units
        noise = inner.noise
        taking = [bool(len(c.sampler.draw(units, noise))) for _ in range(count)] if c.sampler.rate < 1 else True
        value = np.rint(np.full(count, full) * taking / c.bound.grid) * c.bound.grid
        return c.mechanism(torch.from_numpy(value).to(self._device), c.bound, noise).cpu().numpy()


def canary(plan: Plan, asked: Mapping[str, Asked], random: Random, runs: int) -> Whole:
    """The game with the canary that moves the answers most, of one of each kind."""
    spec = plan.data
    records = made_up(plan.data, random, 1)
    asked = {name: as_canary(a) for name, a in asked.items()}
    games = []
    for kind in KINDS[:-1]:
        with_ = with_unit(records, 0, "random" if kind == "antipodal" else kind, spec, random)
        replaced = plan.budget.relation is Relation.REPLACE_ONE
        one = with_unit(with_, 0, "opposite", spec, random) if replaced else without_unit(with_, 0)
        one = _marked(one, 0)
        with_ = _marked(with_, 1)
        games.append(Whole(plan, asked, one, with_, runs))
        if replaced:  # the same image, whose gradient turns round
            games.append(Whole(plan, asked, _marked(with_, 0), with_, runs))
    return max(games, key=_moved)


def _marked(records: MadeUp, mark: int) -> MadeUp:
    return replace(records, images=marked(records.images, mark))


def _moved(game: Whole) -> float:
    total = 0.0
    for name, times in game.used.items():
        c = game.plan.crossings[name]
        if c.held:  # a whole part is the canary there, whatever the record
            continue
        gap = float(np.linalg.norm(game.exact(name, game.two) - game.exact(name, game.one)))
        total += times * (gap / c.mechanism.std(c.bound)) ** 2
    return total
