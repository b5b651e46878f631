"""Correlated noise through an auditor's eyes: independent once what it took back is put in again, and caught if not."""

from __future__ import annotations

import numpy as np
import torch

from sfumato import Budget, Relation
from sfumato.audit.checks.noise_checks import calibration
from sfumato.audit.recording.correlation import Plain, classes_of
from sfumato.audit.recording.crossings import claims
from sfumato.audit.recording.subject import Subject
from sfumato.privacy.banded import Banded
from sfumato.privacy.bounds import Bound
from sfumato.privacy.cycle import Cycle
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.noise import Noise
from sfumato.privacy.plan import Crossing, crossing
from sfumato.privacy.samplers import CyclicPoisson
from tests.made_up import plan

BOUND = Bound(1.0)
TURNS = Crossing(BOUND, BandedGaussian(2.0, Banded(6, 0.75)), CyclicPoisson(0.3, 6), 100)


class Fixed(Noise):
    """Bytes of a tape, so that a test finds the same each time; with `again`, every noise comes twice."""

    def __init__(self, again=False):
        super().__init__()
        self._random, self._again, self._last = np.random.default_rng(5), again, None

    def take(self, count):
        return self._random.bytes(count)

    def gaussian(self, *asked):
        last, self._last = self._last, None
        if last is None:
            last = super().gaussian(*asked)
            self._last = last if self._again else None
        return last


def failed(noise, plain):
    """The checks that noise on nothing does not pass."""
    cycle = Cycle(bytes(32))
    undo = Plain(TURNS) if plain else np.asarray

    def release(nothing):
        return undo(TURNS.mechanism(torch.zeros(500, dtype=torch.float64), BOUND, noise, cycle).numpy())

    subject = Subject(name="sum", release=release, nothing=(None,), **claims("sum", plan(sum=TURNS)))
    return {f.check for f in calibration(subject, np.random.default_rng(0)) if not f.ok}


def test_correlated_noise_is_independent_once_it_is_undone():
    assert failed(Fixed(), plain=True) == set()


def test_as_it_is_it_would_be_taken_for_noise_that_is_used_twice():
    assert {"noise scale", "noise correlation"} <= failed(Fixed(), plain=False)


def test_noise_that_is_used_twice_is_caught():
    assert "noise correlation" in failed(Fixed(again=True), plain=True)


def test_answers_of_other_crossings_stay_as_they_are():
    answer = np.arange(3.0)
    assert Plain(crossing(BOUND, 1.0))(answer) is answer


def test_a_class_goes_by_content_or_by_place():
    names = [bytes([i]) * 16 for i in range(40)]
    by_content, by_place = (
        classes_of("sum", plan(budget=Budget(1.0, relation=relation), sum=TURNS)) for relation in Relation
    )
    assert by_content(names)[1:] == by_content(names[1:]) and by_place(names) == by_place(names[::-1])
    assert by_content(names)[1:] != by_content(names)[:-1]
    assert classes_of("sum", plan(sum=crossing(BOUND, 1.0))) is None
