"""DP-HP: its plan, its bound and that it learns."""

from __future__ import annotations

import math

import pytest

from sfumato import DPHP, DPMERF, Budget, Relation
from tests.one_release import MNIST, bright_and_dark, learned_apart


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_two_blocks_are_charged_as_one_vector(epsilon):
    ours, theirs = (m.plan(MNIST, Budget(epsilon)).crossings["embedding"] for m in (DPHP(), DPMERF()))
    event = ours.event(Relation.ADD_REMOVE)
    assert event.sensitivity == pytest.approx(math.sqrt(2), rel=1e-5)
    assert ours.event(Relation.REPLACE_ONE).sensitivity == pytest.approx(2 * math.sqrt(2), rel=1e-5)
    assert ours.mechanism.multiplier == pytest.approx(theirs.mechanism.multiplier, rel=1e-9)
    assert event.sigma == pytest.approx(math.sqrt(2) * theirs.event(Relation.ADD_REMOVE).sigma, rel=1e-5)


@pytest.mark.parametrize(("more", "norm"), [({"groups": 0}, 1.0), ({"product": 2.0}, math.sqrt(5))])
def test_the_bound_follows_the_blocks(more, norm):
    assert DPHP(**more).bound.norm == pytest.approx(norm)


def test_many_features_for_few_data_are_warned_of():
    assert "Too few data" in DPHP(order=60, groups=100).plan(MNIST, Budget(0.2)).warnings[0]
    assert DPHP(order=2, groups=0).plan(MNIST, Budget(1.0)).warnings == ()


def test_a_small_order_of_the_product_kernel_makes_room_for_a_large_one_of_the_sum():
    assert DPHP(order=100, product_order=20, groups=100).plan(MNIST, Budget(1.0)).warnings == ()
    with pytest.raises(ValueError, match="Expected groups"):
        DPHP(order=100, groups=100)


@pytest.mark.parametrize(
    "bad",
    [
        {"order": 0},
        {"rho": 1.0},
        {"reach": 0.0},
        {"groups": -1},
        {"product": 0.0},
        {"order": 99, "members": 9},
        {"product_order": 99, "members": 9},
        {"product_order": -1},
        {"members": 0},
        {"steps": 0},
    ],
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPHP(**bad)


@pytest.mark.parametrize("more", [{"groups": 0}, {"groups": 8}, {"groups": 8, "order": 9, "product_order": 3}])
def test_it_learns_what_is_easy(more):
    assert learned_apart(DPHP(steps=60, batch=8, latent=4, width=8, **more), bright_and_dark()) > 60
