"""Pages: one public shape, and places that nobody else decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.privacy.noise import Noise
from sfumato.privacy.pages import BLANK, BLOCK, Pages, rows_for


@given(st.integers(1, 5000), st.integers(1, 2000))
def test_there_is_a_place_for_all_and_no_page_is_too_large(places, most):
    pages = Pages.holding(places, most)
    assert pages.rows * pages.count >= places and pages.rows <= most


@given(st.integers(1, 5000), st.integers(BLOCK, 2000), st.integers(1, 8))
def test_pages_can_be_cut_so_that_every_rank_has_one(expected, most, ranks):
    rows = rows_for(expected, most, ranks)
    assert rows <= most
    assert rows == BLOCK or Pages.sampled(expected, rows).count > ranks // 2


@pytest.mark.parametrize("units", [0, 1, 31, 96, 97, 300])
def test_everyone_stands_once_and_all_pages_are_alike(units):
    pages = Pages(32, 3)
    dealt = pages.dealt(np.arange(units) + 7, Noise())
    assert dealt.shape[1] == 32 and len(dealt) % 3 == 0
    assert sorted(dealt[dealt != BLANK]) == list(range(7, 7 + units))
    assert len(dealt) == 3 * max(1, -(-units // 96))


def test_without_one_unit_the_others_have_places_of_the_same_law():
    """Each of the others is as likely at each place, whether one more is there or not."""
    pages, noise, counts = Pages(32, 1), Noise(), np.zeros((2, 32))
    for _ in range(3000):
        for which, units in enumerate((np.arange(5), np.arange(4))):
            counts[which] += (pages.dealt(units, noise) == 3)[0]
    expected = 3000 / 32
    assert (((counts - expected) ** 2 / expected).sum(1) < 75).all()  # 31 degrees of freedom: once in 60,000


def test_in_order_is_in_order():
    placed = Pages(4, 2).in_order(np.arange(6))
    assert placed.tolist() == [[0, 1, 2, 3], [4, 5, BLANK, BLANK]]


def test_a_sample_seldom_needs_another_sheet():
    pages = Pages.sampled(400, most=1024)
    random = np.random.default_rng(0)
    more = sum(random.poisson(400) > pages.rows * pages.count for _ in range(20_000))
    assert more < 80  # a thousandth or two
