"""Recipes of DP-VAE: the older methods with DP-SGD autoencoders, where they differ.

DP-VaeGM (Chen et al., 2018) and DP-SYN (Abay et al., ECML-PKDD 2018) train an autoencoder for each class, DP-GM (Acs et
al., ICDM 2017) one for each cluster of a private kernel k-means. DP-SYN leaves out the KL term and fits a mixture to
the codes of each class by DP-EM. DP2-VAE (Jiang et al., 2022) and DP-LFlow (Jiang and Sun, TMLR 2023) have two stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.recipes.recipe import Recipe

VARIANTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "dp-gm": (
        {"models": "cluster", "clusters": 10, "rounds": 5, "share": 0.1, "likelihood": "bernoulli"},
        "Acs et al. 2017",
        "One network for each cluster of a private kernel k-means, told the class.",
    ),
    "dp-vaegm": (
        {"models": "class", "likelihood": "gaussian", "noise": 0.3},
        "Chen et al. 2018",
        "One network for each class, each with the whole budget.",
    ),
    "dp-syn": (
        {"models": "class", "beta": 0.05, "components": 3, "rounds": 5, "share": 0.1},
        "Abay et al. 2018",
        "One network and one mixture of codes for each class, each with the whole budget.",
    ),
    "dp2-vae": (
        {"second": "decoder", "steps": 750, "second_steps": 750},
        "Jiang et al. 2022",
        "An encoder by one stage of DP-SGD, then a new decoder by another; both are charged.",
    ),
    "dp-lflow": (
        {"second": "flow", "steps": 750, "second_steps": 750, "beta": 0.05},
        "Jiang and Sun 2023",
        "An autoencoder by DP-SGD, then a flow of its codes by DP-SGD, told the class.",
    ),
}


def dp_vae(variant: str, name: str, epsilon: float) -> Recipe:
    """One of the older methods on 28-pixel images.

    >>> dp_vae("dp-syn", "mnist", 1.0).settings["components"]
    3
    """
    changes, paper, note = VARIANTS[variant]
    settings = {"steps": 1500, "batch": 2048, "latent": 16, "width": 32, "learning_rate": 2e-3} | changes
    return Recipe(
        name=f"dp-vae-{variant}-{name}-{epsilon:g}",
        method="dp-vae",
        settings=settings,
        epsilon=epsilon,
        data=name,
        records=60_000,
        shape=(1, 28, 28),
        classes=10,
        kind="ours",
        paper=paper,
        note=note,
    )


def every() -> Iterator[Recipe]:
    """All of them."""
    for variant in VARIANTS:
        for name in ("mnist", "fashion-mnist"):
            yield from (dp_vae(variant, name, epsilon) for epsilon in (1.0, 10.0))
