"""Partition: a unit's part depends on its own identity and a secret key, on nothing and nobody else."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.privacy.keyed_hash import part_of

KEY = bytes(range(32))
IDS = [i.to_bytes(8, "big") for i in range(6000)]


def test_each_unit_is_in_exactly_one_part_and_parts_are_even():
    parts = part_of(IDS, 40, KEY)
    assert parts.min() == 0 and parts.max() == 39
    assert stats.chisquare(np.bincount(parts, minlength=40)).pvalue > 1e-6


def test_removing_one_unit_moves_nobody_else():
    whole, fewer = part_of(IDS, 400, KEY), part_of(IDS[:100] + IDS[101:], 400, KEY)
    assert np.array_equal(np.delete(whole, 100), fewer)


def test_changing_one_unit_touches_at_most_two_parts():
    changed = list(IDS)
    changed[7] = b"someone else"
    assert (part_of(IDS, 400, KEY) != part_of(changed, 400, KEY)).sum() <= 1


def test_the_key_decides():
    assert (part_of(IDS, 400, KEY) != part_of(IDS, 400, bytes(32))).mean() > 0.9


def test_all_images_of_a_person_share_a_part():
    people = [b"ann", b"bob", b"ann", b"ann"]
    parts = part_of(people, 1000, KEY)
    assert parts[0] == parts[2] == parts[3]


def test_parts_must_be_positive():
    with pytest.raises(ValueError, match="parts"):
        part_of(IDS, 0, KEY)
