"""Samplers: the law that is charged is the law that is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.accounting.selection import Runs
from sfumato.privacy.noise import Noise
from sfumato.privacy.samplers import CyclicPoisson, FullBatch, Poisson, draw_count, draw_index, expected_batch


def draws(units, rate, times):
    noise, sampler = Noise(), Poisson(rate)
    return [sampler.draw(units, noise) for _ in range(times)]


def test_batch_sizes_are_binomial():
    sizes = np.array([len(d) for d in draws(50, 0.3, 4000)])
    expected = 4000 * stats.binom.pmf(np.arange(51), 50, 0.3)
    keep = expected > 5
    seen = np.bincount(sizes, minlength=51)
    chi = ((seen - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(chi, keep.sum() - 1) > 1e-5


@pytest.mark.parametrize("rate", [0.2, 0.8])
def test_units_enter_independently_at_the_stated_rate(rate):
    taken = np.zeros((6000, 8))
    for row, drawn in zip(taken, draws(8, rate, 6000), strict=True):
        row[drawn] = 1
    assert np.abs(taken.mean(0) - rate).max() < 0.03
    assert np.abs(np.corrcoef(taken.T) - np.eye(8)).max() < 0.06


def test_over_an_epoch_some_units_appear_twice_and_some_never():
    counts = np.zeros(400)
    for drawn in draws(400, 0.1, 10):
        counts[drawn] += 1
    assert (counts == 0).any()
    assert (counts >= 2).any()


def test_no_unit_appears_twice_in_one_batch_and_indices_are_in_range():
    for drawn in draws(30, 0.9, 200):
        assert len(set(drawn.tolist())) == len(drawn)
        assert len(drawn) == 0 or (drawn.min() >= 0 and drawn.max() < 30)


def test_empty_batches_are_batches():
    sizes = [len(d) for d in draws(3, 0.01, 300)]
    assert sizes.count(0) > 250


def test_everyone_is_everyone_and_claims_no_amplification():
    assert FullBatch().draw(5, Noise()).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="rate=1"):
        FullBatch(rate=0.1)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 2.0])
def test_a_rate_must_make_sense(rate):
    with pytest.raises(ValueError, match="rate"):
        Poisson(rate)


def test_an_expected_batch_of_all_units_or_more_is_everyone():
    assert expected_batch(5, 100) == Poisson(0.05)
    assert expected_batch(100, 100) == expected_batch(101, 100) == FullBatch()


def test_the_number_of_runs_follows_its_law():
    noise, runs = Noise(), Runs(4, 1)
    drawn = np.array([draw_count(runs, noise) for _ in range(3000)])
    expected = np.array([3000 * runs.pmf(k) for k in range(1, 12)])
    seen = np.array([(drawn == k).sum() for k in range(1, 12)])
    chi = ((seen - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(chi, 11) > 1e-5 and drawn.min() >= 1


def test_settings_are_drawn_evenly():
    noise = Noise()
    counts = np.bincount([draw_index(4, noise) for _ in range(2000)], minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-5


def test_classes_take_turns_and_each_of_them_tosses_coins():
    sampler = CyclicPoisson(0.25, 4)
    assert [sampler.turn(use) for use in range(1, 7)] == [0, 1, 2, 3, 0, 1]
    noise = Noise()
    sizes = [len(sampler.draw(10_000, noise)) for _ in range(20)]
    assert abs(np.mean(sizes) - 2500) < 7 * np.sqrt(10_000 * 0.25 * 0.75 / 20)
    assert str(sampler) == "Poisson(0.25) in each cycle of 4 classes in turn"


@pytest.mark.parametrize(("rate", "cycle"), [(0.0, 4), (1.0, 4), (0.5, 1)])
def test_turns_must_make_sense(rate, cycle):
    with pytest.raises(ValueError, match="Expected a rate between 0 and 1 and a cycle"):
        CyclicPoisson(rate, cycle)
