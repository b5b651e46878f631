"""Bugs in how data are prepared, labelled, chosen from and counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.audit.gallery.common import Bug, change, noise, normal_batch
from sfumato.audit.recording.subject import Array, Pair, Random, Rows, Subject


def scaling(bug: bool) -> Subject:
    """Records are scaled by the smallest and largest value of the set; the twin takes a public range."""

    def prepare(data: Array) -> Array:
        low, high = (data.min(), data.max()) if bug else (-4.0, 4.0)
        return np.clip((data - low) / (high - low), 0, 1)

    return Subject(name="scaling", prepared=Rows(prepare, normal_batch(20, 4), change))


def copied_labels(bug: bool) -> Subject:
    """Fakes get the labels of the real batch; the twin draws them from a public prior."""

    def from_batch(real_labels: Array, count: int) -> Array:
        return np.resize(real_labels, count)

    def from_prior(weights: Array, count: int) -> Array:
        return np.random.default_rng(3).choice(len(weights), count, p=weights).astype(np.float64)

    def taped(labels: Array) -> Array:
        return from_batch(labels, 16) if bug else from_prior(np.full(4, 0.25), 16)

    def pairs(random: Random) -> Iterator[Pair]:
        one = random.integers(0, 4, 16)
        two = one.copy()
        two[0] = (one[0] + 1) % 4
        yield Pair("relabelled", Relation.REPLACE_ONE, one, two)
        yield Pair("removed", Relation.ADD_REMOVE, one, one[1:])

    return Subject(name="fake labels", entry=from_batch if bug else from_prior, taped=taped, taped_pairs=pairs)


def relation_mixed(bug: bool) -> Subject:
    """Replace-one releases accounted with the sensitivity of add-remove."""

    def epsilon(multiplier: float, times: int) -> float:
        moved = 1.0 if bug else 2.0
        event = Event("gaussian", multiplier, moved, 1.0, Relation.REPLACE_ONE, times=times)
        return accountant.profile([event]).epsilon(1e-5)

    def golden() -> list[tuple[str, float, float]]:
        # Known from the closed formula for one release that costs 1 and 10 under add-remove, and for 100 at 2.
        return [
            ("epsilon 1 under add-remove, as replace-one", epsilon(1 / 0.268050, 1), 2.155),
            ("epsilon 10 under add-remove, as replace-one", epsilon(1 / 2.000450, 1), 24.39),
            ("100 releases at multiplier 2, replace-one", epsilon(2.0, 100), 91.8),
        ]

    return Subject(name="relation", golden=golden)


class _TestSet:
    """Counts looks, and remembers whether a choice was made after one."""

    def __init__(self) -> None:
        self.looks = 0
        self.chosen_after = False

    def score(self, checkpoint: float) -> float:
        self.looks += 1
        return -abs(checkpoint - 0.3)

    def choose(self, checkpoints: Array, by: Callable[[float], float]) -> float:
        best = max(checkpoints, key=by)
        self.chosen_after = self.looks > 0
        return float(best)


def chosen_on_test(bug: bool) -> Subject:
    """The best checkpoint by accuracy on the sensitive test set; the twin chooses on public data."""

    def looks() -> tuple[int, bool]:
        held = _TestSet()
        best = held.choose(np.linspace(0, 1, 5), held.score if bug else lambda c: -abs(c - 0.4))
        held.score(best)
        return held.looks, held.chosen_after

    return Subject(name="selection", looks=looks)


def private_support(bug: bool) -> Subject:
    """Randomised response among the private records themselves; the twin answers among public candidates."""
    epsilon = 1.0
    candidates = np.linspace(-2, 2, 8)

    def outcomes(data: Array, count: int) -> list[float]:
        among = data if bug else candidates
        truth = int(np.abs(among - data[0]).argmin())
        keep = math.exp(epsilon) / (math.exp(epsilon) + len(among) - 1)
        others = np.delete(np.arange(len(among)), truth)
        spread = others[noise().below(len(others), count)]
        chosen = np.where(noise().uniform(count) < keep, truth, spread)
        return [float(value) for value in among[chosen]]

    def pairs(random: Random) -> Iterator[Pair]:
        one = random.normal(size=8)
        two = one.copy()
        two[3] = random.normal()
        yield Pair("random", Relation.REPLACE_ONE, one, two)
        three = one.copy()
        three[0] = -one[0]
        yield Pair("antipodal", Relation.REPLACE_ONE, one, three)

    return Subject(name="support", pairs=pairs, outcomes=outcomes, epsilon=epsilon)


BUGS = (
    Bug("B18", "scaling by the exact minimum and maximum", scaling, ("outlier canary",)),
    Bug("B19", "fake labels copied from the real batch", copied_labels, ("fixed tape", "signature")),
    Bug("B24", "adjacency mixed up in the accounting", relation_mixed, ("golden numbers",)),
    Bug("B25", "checkpoint chosen on the sensitive test set", chosen_on_test, ("test-set looks",)),
    Bug("B28", "the support of the output depends on the data", private_support, ("output support",)),
)
