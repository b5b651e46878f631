"""The one-run audit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.accounting import gaussian
from sfumato.audit.games.one_run import audit, epsilon_lower, guess, p_value


def test_without_delta_it_is_a_binomial_tail():
    assert p_value(100, 50, 40, 0.0, 0.0) == pytest.approx(binom.sf(39, 50, 0.5))
    assert p_value(100, 50, 0, 1.0, 1e-5) == 1.0


def test_the_p_value_grows_with_epsilon_and_delta():
    values = [p_value(1000, 100, 80, e, 1e-5) for e in (0.0, 0.5, 1.0, 2.0)]
    assert values == sorted(values)
    assert p_value(1000, 100, 80, 1.0, 1e-3) > p_value(1000, 100, 80, 1.0, 1e-5)


def test_the_bound_is_where_the_p_value_meets_the_significance():
    low = epsilon_lower(1000, 200, 170, 1e-5)
    assert p_value(1000, 200, 170, low, 1e-5) == pytest.approx(0.05, rel=1e-2)
    assert epsilon_lower(1000, 200, 100, 1e-5) == 0.0 == epsilon_lower(1000, 0, 0, 1e-5)


@pytest.mark.parametrize(
    ("canaries", "known"), [(1000, (0.22, 0.65, 1.46, 2.78, 3.21)), (5000, (0.40, 0.94, 1.91, 3.50, 4.11))]
)
def test_expected_bounds_are_as_tabled(canaries, known):
    random = np.random.default_rng(1)
    for epsilon, low in zip((1, 2, 4, 8, 10), known, strict=True):
        best = []
        for _ in range(5):
            included = random.random(canaries) < 0.5
            scores = random.normal(size=canaries) + included * gaussian.mu_of(epsilon, 1e-5)
            tries = (int(canaries * s) for s in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0))
            best.append([epsilon_lower(canaries, r, guess(scores, included, r), 1e-5) for r in tries])
        assert np.mean(best, axis=0).max() == pytest.approx(low, abs=0.15 + 0.15 * low)


def test_noise_refutes_nothing_and_a_leak_does():
    random = np.random.default_rng(2)
    included = random.random(1000) < 0.5
    assert audit(random.normal(size=1000), included, 1e-5, 1e-3)[0] == 0.0
    low, guesses, right = audit(included + 0.01 * random.normal(size=1000), included, 1e-5)
    assert low > 3 and right == guesses
