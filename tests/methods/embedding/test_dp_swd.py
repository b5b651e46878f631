"""DP-SWD: its plan, its distance and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import wasserstein_distance

from sfumato import DPSWD, Budget, Relation, load
from sfumato.methods.embedding.dp_swd import wasserstein
from tests.one_release import MNIST, bright_and_dark, learned, learned_apart


def test_a_record_counts_once_in_each_slice():
    plan = DPSWD(slices=100).plan(MNIST, Budget(1.0))
    made = plan.crossings["embedding"]
    assert made.event(Relation.ADD_REMOVE).sensitivity == 10
    assert made.event(Relation.REPLACE_ONE).sensitivity == pytest.approx(math.sqrt(200))
    assert made.mechanism.kind == "discrete-gaussian" and made.mechanism.multiplier == pytest.approx(3.73, abs=0.01)


def test_the_plan_shows_what_rows_would_cost():
    plan = DPSWD(slices=1000).plan(MNIST, Budget(1.0))
    assert plan.facts["spectral_norm"] == pytest.approx(math.sqrt(2), abs=1e-4)  # 1000 directions in 784 dimensions
    assert plan.paper["epsilon"] > 1 and "fixed pair" in plan.paper["note"]


def test_the_distance_is_that_of_sorted_values():
    made, other = torch.randn(1, 50, 1), torch.randn(1, 50, 1).sort(1).values + 3
    assert float(wasserstein(other.flip(1), other)) == 0
    shift = float(wasserstein(other - 0.5, other))
    assert shift == pytest.approx(0.25, abs=1e-5)
    one = wasserstein_distance(made[0, :, 0], other[0, :, 0])
    assert float(wasserstein(made, other)) >= one**2 - 1e-6  # W_2 is at least W_1


@pytest.mark.parametrize(
    "bad", [{"slices": 0}, {"bins": 1}, {"span": 0.0}, {"blur": -1.0}, {"batch": 1}, {"slices": 10**5, "bins": 11}]
)
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPSWD(**bad)


@pytest.mark.parametrize("blur", [0.0, 1.0])
def test_it_learns_what_is_easy(blur):
    settings = {"slices": 40, "bins": 32, "span": 8.0, "blur": blur, "steps": 80, "batch": 16}
    assert learned_apart(DPSWD(**settings, latent=4, width=8), bright_and_dark()) > 60


def test_it_learns_how_images_vary_too():
    grey = np.random.default_rng(0).integers(0, 256, 400, dtype=np.uint8)  # every image of one shade
    box = load((np.broadcast_to(grey[:, None, None], (400, 8, 8)).copy(), np.arange(400) % 2))
    method = DPSWD(slices=40, bins=32, span=8.0, blur=2.0, steps=150, batch=32, latent=4, width=8)
    shades = learned(method, box).sample(200, seed=1).pixels.mean((1, 2, 3))
    assert shades.std() > 20  # that of the data is 74; a mean alone would leave hardly any
