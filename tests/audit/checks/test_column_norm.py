"""How much a term counts in what is charged for: measured on the noise itself, for right and wrong charges."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from sfumato.audit.checks.column_norm import column_of, columns
from sfumato.audit.checks.inclusion import Ear
from sfumato.privacy.banded import ONE, Banded
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.plan import Crossing
from sfumato.privacy.samplers import CyclicPoisson
from tests.made_up import plan

BOUND = Bound(1.0)
RIGHT = Crossing(BOUND, BandedGaussian(1.0, Banded(6, 0.75)), CyclicPoisson(0.3, 8), 100)


@dataclass(frozen=True)
class Forgetful(BandedGaussian):
    def column_norm(self, uses):
        return 1.0


def test_an_impulse_shows_the_coefficients():
    column = column_of("sum", plan(sum=RIGHT), Ear(BOUND).query, 16)
    assert column[:6] == pytest.approx(np.array(Banded(6, 0.75).coefficients) / ONE, abs=1e-7)
    assert np.abs(column[6:]).max() < 1e-7


def test_what_is_charged_is_what_is_measured():
    (found,) = columns(plan(sum=RIGHT))
    assert found.ok, found
    assert list(columns(plan())) == []  # noise of single uses


def test_a_norm_that_was_forgotten_shows():
    (found,) = columns(plan(sum=replace(RIGHT, mechanism=Forgetful(1.0, Banded(6, 0.75)))))
    assert not found.ok and "1 times is charged" in found.detail
