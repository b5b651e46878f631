"""The baselines at the settings of their codes: all that the papers compare with, and whose numbers they are."""

from __future__ import annotations

import math

import pytest

from sfumato.recipes import RECIPES, find
from sfumato.recipes.baseline_settings import BASELINES, CELLS, mehler, width_of
from sfumato.recipes.baselines import code

# Of the DataLens paper's tables 1 and 5 and of DPAF's table II, with those that the survey adds.
COMPARED = {
    "dp-gan": "dpgan-xie-code-{}",
    "pate-gan": "pate-gan-code-{}",
    "g-pate": "g-pate-code-{}",
    "gs-wgan": "gs-wgan-code-{}",
    "dp-merf": "dp-merf-code-{}",
    "p3gm": "p3gm-code-{}",
    "dp-sinkhorn": "dp-sinkhorn-code-{}",
    "dp-hp": "dp-hp-code-{}",
    "ndpdc": "ndpdc-code-{}",
    "pearl": "pearl-code-{}",
    "private-set": "private-set-code-{}",
    "dp-ntk": "dp-ntk-code-{}",
    "dpdm": "dpdm-paper-{}",
}


@pytest.mark.parametrize("name", COMPARED)
def test_every_baseline_has_both_sets_and_budgets(name):
    for data, epsilon in CELLS:
        recipe = find(COMPARED[name].format(f"{data}-{epsilon:g}"))
        assert (recipe.data, recipe.epsilon, recipe.delta) == (data, epsilon, 1e-5)
        assert recipe.kind in ("code", "paper")


@pytest.mark.parametrize("name", [n for n in BASELINES if any(BASELINES[n].published)])
def test_a_published_number_says_where_it_is_from(name):
    assert "Published: " in BASELINES[name].note


def test_numbers_of_datalens_are_those_of_its_table_1():
    first = ("dpgan-xie", "pate-gan", "g-pate", "gs-wgan")
    assert [find(f"{n}-code-mnist-1").published for n in first] == [0.4036, 0.4168, 0.5810, 0.1432]
    assert [find(f"{n}-code-mnist-10").published for n in first] == [0.8011, 0.6667, 0.8092, 0.8075]
    assert [find(f"{n}-code-fashion-mnist-1").published for n in first] == [0.1053, 0.4222, 0.5567, 0.1661]
    assert [find(f"{n}-code-fashion-mnist-10").published for n in first] == [0.6098, 0.6218, 0.6934, 0.6579]


def test_compressions_of_table_5_have_their_published_numbers():
    assert find("datalens-table5-levels").published == find("datalens-table5-rotated-levels").published == 0.1667
    assert find("datalens-table5-sketch").published == 0.6387
    for name, published in (("d2p-fed", 0.1424), ("fetchsgd", 0.6935)):
        recipe = find(f"datalens-{name}-mnist-1")
        assert recipe.published == published
        assert recipe.make().plan(recipe.spec(), recipe.budget()).facts["steps"] == 149


@pytest.mark.parametrize(("epsilon", "sigma", "sigma_thresh"), [(1.0, 1000, 3000), (10.0, 100, 600)])
def test_g_pate_has_the_noise_of_its_code(epsilon, sigma, sigma_thresh):
    recipe = code("g-pate", "mnist", epsilon)
    found = recipe.make().plan(recipe.spec(), recipe.budget()).facts["sigma"]
    assert found == {"histogram": pytest.approx(sigma, rel=0.01), "test": pytest.approx(sigma_thresh, rel=0.01)}


def test_kernels_are_those_of_the_codes():
    # exp(-rho d^2 / (1 - rho^2)) of ours is exp(-d^2 / (2 sigma^2)) of DP-HP's code, for pixels half as far apart.
    for sigma2 in (0.005, 0.15):
        rho = mehler(sigma2)
        assert rho / (1 - rho**2) == pytest.approx(1 / (2 * sigma2), rel=1e-3)
    # w ~ N(0, 1/sigma2) of DP-MERF's code has deviation 1 / (bandwidth sqrt(pixels)) here.
    assert 1 / (width_of(105) * 28) == pytest.approx(1 / math.sqrt(105), rel=1e-4)


def test_what_gs_wgan_trains_its_critics_with_is_as_much_in_all():
    settings = find("gs-wgan-code-mnist-10").settings
    each = settings["steps"] / settings["teachers"] * 5  # the code: five updates of the one that was drawn
    assert settings["steps"] / settings["every"] * settings["updates"] == each


def test_the_family_of_dpgan_runs_on_mnist():
    family = ("sprint", "zhang", "xie", "alzantot", "ganobfuscator", "dp-cgan", "frigerio")
    assert {f"dpgan-{name}-mnist-10" for name in family} <= set(RECIPES)
