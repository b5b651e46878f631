"""How much is done: a function of device and shape alone, and what is left out is said."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError
from sfumato.evaluate.attacks import KINDS
from sfumato.evaluate.effort import DEFAULT, FULL, LEAST, QUICK, SLOW_ATTACKS, effort_of, left_out

SMALL = (1, 28, 28)


def test_a_gpu_does_all_of_it_unless_asked_for_less():
    whole = effort_of(DEFAULT, "cuda:0", SMALL)
    assert whole == effort_of(FULL, "cuda:0", SMALL) and whole.steps is None and whole.attacks == KINDS
    assert left_out(whole, "cuda:0", SMALL) == []
    assert effort_of(QUICK, "cuda", SMALL).metrics == ("utility",)


def test_a_processor_leaves_out_what_takes_long():
    made = effort_of(DEFAULT, "cpu", SMALL)
    assert not set(made.attacks) & set(SLOW_ATTACKS) and made.steps < 2000 and made.images is not None
    words = " ".join(left_out(made, "cpu", SMALL))
    for said in ("white-box", "efficientnet-lite0", f"{made.steps} steps", "drew no new ones", "Add --full"):
        assert said in words


@pytest.mark.parametrize("name", [QUICK, DEFAULT])
def test_larger_images_get_fewer_steps(name):
    small, large, huge = (effort_of(name, "cpu", (3, side, side)) for side in (28, 64, 512))
    assert small.steps * small.seeds > large.steps * large.seeds >= huge.steps * huge.seeds == LEAST


def test_the_steps_of_large_images_cost_about_as_much():
    def cost(side):
        made = effort_of(DEFAULT, "cpu", (1, side, side))
        return made.seeds * made.steps * side * side

    assert all(cost(side) <= 1.05 * cost(28) for side in (32, 48, 64, 100))


def test_what_was_asked_for_by_name_is_no_gap():
    made = effort_of(QUICK, "cpu", SMALL)
    assert not any("not measured" in words for words in left_out(made, "cpu", SMALL, ["metrics"]))


def test_an_effort_that_there_is_not():
    with pytest.raises(InputError, match="quick, default, full"):
        effort_of("some", "cpu", SMALL)
