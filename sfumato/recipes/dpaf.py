"""Recipes of DPAF (Lin et al.): the canonical settings of its section VI, its ablations, and ours.

All are for sound DPAF: the accuracies that go with them were published for the printed procedure, whose guarantee does
not hold. The paper says nothing of epochs, learning rates, widths and the number of aggregated maps. Tables V and XVII
have no recipe: conv1 with noise of its own inside the game is the printed construction again, and membership inference
is what `sfumato audit` does at level 3. TopAgg in table XII belongs to DataLens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.recipes.recipe import Recipe

FACES = ("celeba-gender", 182_637, (3, 64, 64), 2)
FFHQ = ("ffhq-gender", 62_523, (3, 128, 128), 2)
FAIRFACE = ("fairface", 28_000, (3, 64, 64), 2)
FASHION = ("fashion-mnist", 60_000, (1, 28, 28), 10)
CANONICAL: dict[str, Any] = {
    "epochs": 5.0, "batch": 64, "latent": 100, "mu": 8, "keep": 0.9, "split": "0.1,x,0.1", "conv1": "private",
    "layout": "C2-C2-C1", "activation": "leaky", "critic_steps": 1,
}  # fmt: skip
RANDOM = {"conv1": "random"}
UNSAID = "The paper does not give the number of epochs; its accuracy is that of the printed, unsound procedure."


def _recipe(name: str, made: tuple[str, int, tuple[int, int, int], int], epsilon: float, settings: dict[str, Any],
            paper: str, published: float | None, note: str = UNSAID, kind: str = "paper") -> Recipe:  # fmt: skip
    data, records, shape, classes = made
    return Recipe(name=name, method="dpaf", settings=settings, epsilon=epsilon, data=data, records=records, shape=shape,
                  classes=classes, kind=kind, paper=paper, note=note, published=published)  # fmt: skip


def canonical() -> Iterator[Recipe]:
    """Tables II, III and XIV: the paper's own settings, by budget and size."""
    for epsilon, found in ((0.5, 0.768), (1.0, 0.802), (5.0, 0.789), (10.0, 0.826)):
        name = "dpaf-paper" if epsilon == 1 else f"dpaf-paper-faces-{epsilon:g}"
        yield _recipe(name, FACES, epsilon, CANONICAL, "table II" if epsilon in (1, 10) else "table XIV", found)
    for epsilon, found in ((1.0, 0.567), (10.0, 0.646)):
        yield _recipe(f"dpaf-paper-ffhq-{epsilon:g}", FFHQ, epsilon, {**CANONICAL, "layout": "C3-C1-x"}, "table III",
                      found)  # fmt: skip


def _changed(table: str, name: str, changes: dict[str, Any], published: float) -> Recipe:
    """The canonical settings at epsilon 1 with a few of them changed."""
    return _recipe(f"dpaf-table{table}-{name}", FACES, 1.0, {**CANONICAL, **changes}, f"table {table}", published)


def splits() -> Iterator[Recipe]:
    """Tables IV, VI and VII: how the budget is split, and which layers learn."""
    for share, found in (("0.5", 0.752), ("0.2", 0.774)):
        yield _changed("IV", f"random-{share}", {**RANDOM, "split": f"x,{share}"}, found)
    joint = {**RANDOM, "layout": "x-C4-C1"}
    yield _changed("VI", "joint-half", {**joint, "split": "50%,50%"}, 0.768)
    yield _changed("VI", "joint-0.1", {**joint, "split": "x,0.1"}, 0.748)
    cells = ((20, 20, 60, 0.741), (20, 60, 20, 0.801), (20, 40, 40, 0.793), (30, 20, 50, 0.771), (30, 50, 20, 0.795))
    more = ((30, 40, 30, 0.791), (30, 30, 40, 0.704), (40, 30, 30, 0.745), (40, 20, 40, 0.759), (40, 40, 20, 0.763))
    for a, b, c, found in (*cells, *more):
        yield _changed("VII", f"{a}-{b}-{c}", {"split": f"{a}%,{b}%,{c}%"}, found)


def layouts() -> Iterator[Recipe]:
    """Tables VIII and X: where the layers are."""
    eight = (("C1-C3-C1", 0.448), ("C2-C1-C1", 0.673), ("C2-C1-C2", 0.505), ("C3-C1-C1", 0.800))
    ten = (("C1-C1-x", 0.629), ("C1-C2-x", 0.737), ("C2-C1-x", 0.824), ("C1-C3-x", 0.661), ("C2-C2-x", 0.805),
           ("C3-C1-x", 0.811))  # fmt: skip
    for table, cells in (("VIII", eight), ("X", ten)):
        for layout, found in cells:
            yield _changed(table, layout, {"layout": layout}, found)


def others() -> Iterator[Recipe]:
    """Tables IX, XI, XII, XIII, XV: mu, public images, compression, tempered sigmoids, n_critic."""
    for mu, found in ((2, 0.775), (4, 0.688), (10, 0.772), (20, 0.773)):
        yield _changed("IX", f"mu-{mu}", {"mu": mu}, found)
    yield _changed("XI", "trans-d", {"warm": 2000}, 0.819)
    yield _changed("XI", "trans-gd", {"warm": 2000, "warm_generator": True}, 0.820)
    yield _changed("XII", "no-compression", {"keep": 1.0}, 0.725)
    yield _changed("XIII", "tanh", {"activation": "tanh"}, 0.802)
    for n, found in ((10, 0.725), (50, 0.573), (100, 0.537), (200, 0.510)):
        yield _changed("XV", f"critic-{n}", {"critic_steps": n}, found)
    for n, found in ((1, 0.507), (10, 0.666)):
        yield _changed("XV", f"mu-1-critic-{n}", {"mu": 1, "critic_steps": n}, found)


def ours() -> Iterator[Recipe]:
    """Our settings. Placeholders: not yet measured."""
    settings = {
        "epochs": 10.0,
        "batch": 256,
        "mu": 4,
        "classwise": True,
        "replay": 8,
        "split": "x,0.3",
        "features": 128,
    }
    for name, made in (("fairface", FAIRFACE), ("fashion-mnist", FASHION)):
        for epsilon in (1.0, 10.0):
            yield _recipe(f"dpaf-ours-{name}-{epsilon:g}", made, epsilon, settings, "none", None, "Not yet measured.",
                          "ours")  # fmt: skip
    small = {**settings, "split": "equal", "epochs": 2.0, "critic_width": 8, "width": 8, "features": 32, "latent": 16}
    yield _recipe("dpaf-small-fashion-mnist-10", FASHION, 10.0, small, "none", None,
                  "For a look on two cores, not for quality.", "ours")  # fmt: skip


def every() -> Iterator[Recipe]:
    """All of them."""
    for family in (canonical, splits, layouts, others, ours):
        yield from family()


TABLES = {
    f"DPAF {table}": ("dpaf-paper", *(r.name for r in every() if r.paper == f"table {table}"))
    for table in ("IV", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV")
}
