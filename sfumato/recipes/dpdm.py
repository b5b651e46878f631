"""Recipes of DPDM (Dockhorn et al., TMLR 2023): the paper's size of training, and what one GPU does in minutes.

The paper trains for 300 epochs of batches of 4096 with 32 noise levels a record: half a milliard passes of a network
with 1.75 million parameters. Ours begin with images of a released embedding and make one to twenty million passes
of a network with 420,000 parameters, which meets less noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.recipes.recipe import Recipe

GREY = (60_000, (1, 28, 28), 10)  # records, shape and classes of both
SETS = {"mnist": GREY, "fashion-mnist": GREY, "fairface": (28_000, (3, 64, 64), 2)}
# Accuracy of a convolutional network trained on the images, as the paper reports it at delta 1e-5.
PUBLISHED = {
    ("mnist", 1.0): 0.953,
    ("mnist", 10.0): 0.981,
    ("fashion-mnist", 1.0): 0.794,
    ("fashion-mnist", 10.0): 0.862,
}
RUN = "Made for one H200 and a few minutes, with --microbatch 4096 or more."

SMALL = {"patch": 2, "depth": 2, "attention": 0, "P_mean": -0.5, "bfloat16": True}
EMBEDDING = {"embedding_features": 20_000, "embedding_steps": 2000, "public_steps": 2000, "public_batch": 192}
OURS: dict[float, dict[str, Any]] = {
    1.0: {"embedding_share": 0.6, "steps": 120, "batch": 4096, "learning_rate": 1.5e-4, "ema_decay": 0.98},
    10.0: {"embedding_share": 0.1, "steps": 1200, "batch": 4096, "learning_rate": 2e-3, "ema_decay": 0.995},
}
OWN: dict[tuple[str, float], dict[str, Any]] = {
    ("fashion-mnist", 1.0): {"embedding_share": 0.8, "steps": 80, "learning_rate": 1e-4, "public_steps": 4000},
    ("fairface", 10.0): {"patch": 4, "attention": 1, "steps": 800},
}


def _recipe(kind: str, name: str, epsilon: float, settings: dict[str, Any], paper: str, note: str) -> Recipe:
    records, shape, classes = SETS[name]
    return Recipe(
        name=f"dpdm-{kind}-{name}-{epsilon:g}",
        method="dpdm",
        settings=settings,
        epsilon=epsilon,
        data=name,
        records=records,
        shape=shape,
        classes=classes,
        kind=kind,
        paper=paper,
        note=note,
        published=PUBLISHED[name, epsilon] if kind == "paper" else None,
    )


def dpdm_paper(name: str, epsilon: float) -> Recipe:
    """The paper's batches, epochs, multiplicity and rate, with our network and accountant.

    >>> dpdm_paper("mnist", 10.0).settings["noise_multiplicity"]
    32
    """
    settings = {
        "steps": 4395,
        "batch": 4096,
        "noise_multiplicity": 32,
        "learning_rate": 3e-4,
        "cosine": False,
        "drop": 0.1,
        "ema_decay": 0.999,
        "sampler": "churn",
        "sampler_steps": 200,
        "bfloat16": True,
    }
    note = "Hours on several GPUs. The network has 1.74 million parameters, the paper's 1.75 million."
    return _recipe("paper", name, epsilon, settings, "tables 2 and 3", note)


def dpdm_ours(name: str, epsilon: float) -> Recipe:
    """A small network, and images of a released embedding before the first private step.

    >>> dpdm_ours("mnist", 1.0).settings["embedding_share"]
    0.6
    """
    return _recipe("ours", name, epsilon, SMALL | EMBEDDING | OURS[epsilon] | OWN.get((name, epsilon), {}), "none", RUN)


def every() -> Iterator[Recipe]:
    """All of them."""
    for name, epsilon in PUBLISHED:
        yield dpdm_paper(name, epsilon)
        yield dpdm_ours(name, epsilon)
    yield dpdm_ours("fairface", 10.0)
