"""Level 2: whole runs with and without a canary, compared with the curve of the whole claim.

Whatever can be run with and without a canary can be audited: it needs `play(present, runs)`, one statistic a run, and
`profile`, the claim. Two such games are given: a gradient canary for DP-SGD-like steps, and one whole part as a
canary for methods that vote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from sfumato.accounting import accountant
from sfumato.accounting.accountant import Profile
from sfumato.accounting.budget import Relation
from sfumato.accounting.tradeoff import curve_of, held_out, roc
from sfumato.audit.games.step import Played
from sfumato.audit.recording.subject import Array, Finding, Random, Subject

if TYPE_CHECKING:
    from sfumato.privacy.plan import Crossing

RUNS = 4000
AT_ONCE = 4e5  # values asked for at once


class Game(Protocol):
    """A claim that can be put to the test by whole runs."""

    @property
    def profile(self) -> Profile | None:
        """What is claimed of a whole run."""

    @property
    def play(self) -> Callable[[bool, int], Array] | None:
        """`play(present, runs)`: the statistic of each run, larger where the canary took part."""


def run(game: Game, runs: int = RUNS, alpha: float = 1e-3) -> Played | None:
    """Play with and without the canary; the threshold is chosen on one half of the runs and judged on the other."""
    if game.play is None or game.profile is None:
        return None
    without = game.play(False, runs)
    with_ = game.play(True, runs)
    curve = curve_of(game.profile)
    return Played(held_out(without, with_, curve, alpha), curve, roc(without, with_))


def end_to_end(subject: Subject, random: Random, runs: int = RUNS, alpha: float = 1e-3) -> Finding | None:
    """The end-to-end game as a finding."""
    played = run(subject, runs, alpha)
    return None if played is None else Finding("end to end", 2, played.ok, played.said())


def likelihood(along: Array, gap: float, sigma: float, rate: float) -> Array:
    """Log-likelihood ratio of a step in which the canary moves the answer by `gap` with probability `rate`."""
    shift = gap * (along - gap / 2) / sigma**2
    return shift if rate == 1 else np.logaddexp(np.log1p(-rate), np.log(rate) + shift)


@dataclass(frozen=True, eq=False)
class GradientCanary:
    """DP-SGD steps on a real sampler and a real mechanism: the canary's gradient has the full norm, alone in its
    direction, and the likelihood of each step is added up."""

    crossing: Crossing
    noise: Any  # the source of a barrier
    steps: int
    units: int = 50  # the canary is number 0
    relation: Relation = Relation.ADD_REMOVE

    @property
    def profile(self) -> Profile:
        """The claim for this many steps."""
        return accountant.profile([self.crossing.event(self.relation, self.steps)])

    def play(self, present: bool, runs: int) -> Array:
        """One statistic a run."""
        c = self.crossing
        taking = np.zeros((runs, self.steps))
        if present:
            drawn = [self._takes_part() for _ in range(runs * self.steps)]
            taking = np.array(drawn, dtype=float).reshape(runs, self.steps)
        along = c.mechanism(torch.from_numpy(taking * c.bound.norm), c.bound, self.noise).numpy()
        sigma = c.mechanism.std(c.bound)
        steps = likelihood(along, c.bound.norm, sigma, c.sampler.rate)
        return np.asarray(steps.sum(1), dtype=np.float64)

    def _takes_part(self) -> bool:
        members = self.crossing.sampler.draw(self.units, self.noise)
        return bool(len(members) and members[0] == 0)


@dataclass(frozen=True, eq=False)
class PartitionCanary:
    """A voting method whose canary is a whole part: its votes are -u, or +u, in every query.

    `query(votes)` gives the noisy answers to queries in which the canary part votes the rows of `votes`, and the others
    nothing; mu = 2 sqrt(k Q)/sigma is attained.
    """

    query: Callable[[Array], Array]
    votes: Array
    queries: int
    profile: Profile

    def play(self, present: bool, runs: int) -> Array:
        """Votes along the canary's, summed over all queries of a run; several runs are asked at once."""
        u = self.votes if present else -self.votes
        together = max(1, int(AT_ONCE // (self.queries * len(u))))
        sizes = [min(together, runs - start) for start in range(0, runs, together)]
        scores = [(self.query(np.tile(u, (n * self.queries, 1))) @ self.votes).reshape(n, -1).sum(1) for n in sizes]
        return np.concatenate(scores)
