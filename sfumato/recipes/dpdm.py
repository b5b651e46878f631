"""Recipes of DPDM (Dockhorn et al., TMLR 2023): the paper's size of training, and what one GPU does in a quarter of an
hour.

The paper trains for 300 epochs of batches of 4096 with 32 noise levels a record: half a milliard passes of a network
with 1.75 million parameters. Ours make some thirty million; the noise of a step is what the plan says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.recipes.recipe import Recipe

SETS = ("mnist", "fashion-mnist")
# Accuracy of a convolutional network trained on the images, as the paper reports it at delta 1e-5.
PUBLISHED = {
    ("mnist", 1.0): 0.953,
    ("mnist", 10.0): 0.981,
    ("fashion-mnist", 1.0): 0.794,
    ("fashion-mnist", 10.0): 0.862,
}
RUN = "Made for one H200 and Run(microbatch=512), in two runs of eight minutes; not yet measured."

# Noise in clipping norms, from `sfumato plan`: 8.2 (1000 steps) at epsilon 1, 1.7 (2000 steps) at epsilon 10.
OURS: dict[float, dict[str, Any]] = {
    1.0: {"steps": 1000, "batch": 4096, "copies": 8},
    10.0: {"steps": 2000, "batch": 4096, "copies": 4},
}


def _recipe(kind: str, name: str, epsilon: float, settings: dict[str, Any], paper: str, note: str) -> Recipe:
    return Recipe(
        name=f"dpdm-{kind}-{name}-{epsilon:g}", method="dpdm", settings=settings, epsilon=epsilon, data=name,
        records=60_000, shape=(1, 28, 28), classes=10, kind=kind, paper=paper, note=note,
        published=PUBLISHED[name, epsilon] if kind == "paper" else None,
    )  # fmt: skip


def dpdm_paper(name: str, epsilon: float) -> Recipe:
    """The paper's batches, epochs, multiplicity and rate, with our network and accountant.

    >>> dpdm_paper("mnist", 10.0).settings["copies"]
    32
    """
    settings = {"steps": 4395, "batch": 4096, "copies": 32, "rate": 3e-4, "cosine": False, "average": 0.999,
                "sampler": "churn", "evaluations": 200, "bfloat16": True}  # fmt: skip
    note = "Hours on several GPUs. The network has 1.74 million parameters, the paper's 1.75 million."
    return _recipe("paper", name, epsilon, settings, "tables 2 and 3", note)


def dpdm_ours(name: str, epsilon: float) -> Recipe:
    """Settings that fit a quarter of an hour."""
    more = {"rate": 1e-3, "cosine": True, "average": 0.999, "drop": 0.1, "guidance": 1.5, "sampler": "churn",
            "evaluations": 30, "bfloat16": True}  # fmt: skip
    return _recipe("ours", name, epsilon, OURS[epsilon] | more, "none", RUN)


def every() -> Iterator[Recipe]:
    """All of them."""
    for name in SETS:
        for epsilon in (1.0, 10.0):
            yield dpdm_paper(name, epsilon)
            yield dpdm_ours(name, epsilon)
