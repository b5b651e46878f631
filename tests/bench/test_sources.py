"""Names of recipes that make a column."""

from __future__ import annotations

from sfumato.bench.sources import for_column, here, named


def test_a_small_budget_takes_the_nearest_recipe():
    assert named("dpgan", "revised", "mnist", 0.2).recipe == "dpgan-revised-mnist-1"
    assert named("dpgan", "revised", "mnist", 5.0).recipe == "dpgan-revised-mnist-10"


def test_a_recipe_that_is_not_here_keeps_its_name():
    name = named("no-such-method", "paper", "mnist", 1.0).recipe
    assert name == "no-such-method-paper-mnist-1" and not here(name)


def test_dp_gan_is_xie_s_and_private_gans_are_bie_s():
    assert "-xie-" in for_column("DP-GAN", "mnist", 10.0)[0].recipe
    assert for_column("Private-GANs", "celeba-gender", 10.0)[0].recipe.startswith("dpgan-code-")
    assert for_column("DataLens", "mnist", 1.0)[0].recipe == "datalens-paper-mnist-1"
