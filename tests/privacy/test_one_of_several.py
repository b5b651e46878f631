"""One site's share of a sum: on the grid, charged once, with noise of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.errors import OverBudget
from sfumato.privacy.bounds import Bound, BoundedSum, IntegerBound
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.one_of_several import OneOfSeveral, noised
from sfumato.privacy.plan import crossing
from tests.federation.houses import Silence, Tape
from tests.made_up import box, plan

QUERY = BoundedSum(lambda images, labels: images.flatten(1), Bound(1.0), (64,))


def side(noise, **crossings):
    data = box()
    return OneOfSeveral(data, data.spec, Odometer(plan(data.spec, **crossings)), noise=noise)


def test_steps_are_the_sum_on_the_grid_with_or_without_a_share_of_noise():
    one = side(Silence(), q=crossing(Bound(1.0), 1.0, times=3))
    exact = one.steps("q", QUERY, (), None)
    assert (one.steps("q", QUERY, (), 2) == exact).all()  # the share is silent
    assert (side(Tape(), q=crossing(Bound(1.0), 1.0)).steps("q", QUERY, (), 2) != exact).any()
    total = noised(exact, one.odometer.plan.crossings["q"])
    assert total.dtype == torch.float64 and (total / QUERY.bound.grid == torch.from_numpy(exact)).all()


def test_a_question_asked_again_is_not_charged_again():
    one = side(Tape(), q=crossing(Bound(1.0), 1.0))
    one.steps("q", QUERY, (), 2)
    one.steps("q", QUERY, (), 2, charge=False)
    with pytest.raises(OverBudget, match="at most 1 uses"):
        one.steps("q", QUERY, (), 2)
    with pytest.raises(ValueError, match="question of crossing 'q' again"):
        one.steps("q", BoundedSum(QUERY.contribution, Bound(2.0), (64,)), (), 2, charge=False)


def test_counts_go_on_where_they_were():
    one, other = (side(Tape(), q=crossing(Bound(1.0), 1.0, times=2)) for _ in range(2))
    one.steps("q", QUERY, (), 2)
    other.count_from(one.counted())
    other.steps("q", QUERY, (), 2)
    with pytest.raises(OverBudget):
        other.steps("q", QUERY, (), 2)


def test_more_numbers_than_so_little_noise_is_good_for_are_refused():
    votes = BoundedSum(lambda images, labels: images.new_zeros((len(images), 20_000)), IntegerBound(1), (20_000,))
    coarse = side(Silence(), q=crossing(IntegerBound(1), 2 * np.sqrt(2)))
    with pytest.raises(OverBudget, match="numbers of crossing 'q' with such noise"):
        coarse.steps("q", votes, (), 2)
