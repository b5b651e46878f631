"""Times of compressions."""

from __future__ import annotations

import pytest

from sfumato.bench.compressions import COMPRESSIONS, measure


@pytest.mark.parametrize("what", COMPRESSIONS)
def test_every_compression_is_timed_in_all_its_parts(what):
    found = measure(what, (8, 2, 784), "cpu")
    assert found["all"] == pytest.approx(found["encode"] + found["sum"] + found["decode"]) and found["encode"] > 0
