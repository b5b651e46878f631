"""What a rehearsal says of the time of a run."""

from __future__ import annotations

import pytest

from sfumato.flow.expected_time import Stopwatch, in_words


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_second_step_is_the_pace_of_a_loop(clock):
    watch = Stopwatch(clock)
    for step in watch.paced(100, iter(range(2))):
        clock.now += (5.0, 2.0)[step]
    assert watch.expected == pytest.approx(200)


def test_what_is_behind_the_barrier_grows_with_the_records_and_the_rest_does_not(clock):
    watch = Stopwatch(clock)
    for _ in watch.paced(10, iter(range(2))):
        with watch.behind(50):
            clock.now += 0.5
        clock.now += 1
    assert watch.expected == pytest.approx(10 * (50 * 0.5 + 1))
    assert watch.last == pytest.approx(0.5)


def test_what_is_asked_outside_of_loops_counts_once(clock):
    watch = Stopwatch(clock)
    with watch.behind(8):
        clock.now += 1
    for _ in watch.paced(3, iter(range(1))):
        clock.now += 1
    with watch.behind(2):
        clock.now += 1
    assert watch.expected == pytest.approx(8 + 3 + 2)


def test_updates_that_a_rehearsal_leaves_out_count_as_the_last_one(clock):
    watch = Stopwatch(clock)
    for _ in watch.paced(4, iter(range(2))):
        with watch.behind(10):
            clock.now += 1
        watch.again()
    assert watch.expected == pytest.approx(4 * 20)


def test_a_range_holds_what_was_measured():
    for seconds in (10.0, 45.0, 89.0, 91.0, 600.0, 3000.0, 6000.0, 90_000.0):
        low, _, high, unit = in_words(seconds).split()
        length = {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
        assert float(low) * length <= seconds <= float(high) * length, in_words(seconds)
