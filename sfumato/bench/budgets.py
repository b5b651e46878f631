"""What the papers' settings cost: by the papers' formulas and by sound accounting, computed and not typed in."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.bench.table import Listing
from sfumato.recipes import RECIPES

DELTA = 1e-5
VOTES = [
    f"datalens-{kind}-{data}-{epsilon}"
    for data in ("mnist", "fashion-mnist", "faces")
    for epsilon in (1, 10)
    for kind in ("paper", "code")
]
# Of tables II, V and VII, at the budgets of both columns.
SPLITS = ["dpaf-paper", "dpaf-tableV-game-33-34-33", *(name for name in RECIPES if name.startswith("dpaf-tableVII-"))]


def votes() -> list[dict[str, str]]:
    """TopAgg: how many queries and steps theorem 3 allows, what those cost exactly, and how many are allowed exactly.

    >>> votes()[0]["steps by theorem 3"], votes()[0]["steps, exactly"]
    ('86', '149')
    """
    from sfumato.accounting.claims.datalens_votes import datalens_queries
    from sfumato.accounting.gaussian import epsilon_of, mu_of

    rows = []
    for recipe in (RECIPES[name] for name in VOTES):
        k, sigma, batch = (recipe.settings[name] for name in ("topk", "sigma", "batch"))
        steps = datalens_queries(k, sigma, recipe.epsilon, DELTA) // batch
        cost = epsilon_of(DELTA, 2 * math.sqrt(k * steps * batch) / sigma)
        exact = math.floor((mu_of(recipe.epsilon, DELTA) * sigma) ** 2 / (4 * k))
        rows.append(
            {
                "recipe": recipe.name,
                "k": f"{k}",
                "sigma": f"{sigma:g}",
                "sensitivity": f"{2 * math.sqrt(k):.1f}",
                "steps by theorem 3": f"{steps}",
                "their epsilon, exactly": f"{cost:.3f}",
                "steps, exactly": f"{exact // batch}",
            }
        )
    return rows


def splits() -> list[dict[str, str]]:
    """DPAF: noise over sensitivity of its three parts for each split, sound, and what theorem 6 says of the same."""
    from sfumato.flow.make import make_plan

    rows = []
    for recipe in (RECIPES[name] for name in SPLITS):
        for epsilon in (1.0, 10.0):
            plan = make_plan(recipe.make(), recipe.spec(), replace(recipe.budget(), epsilon=epsilon))
            noise = plan.facts["multipliers"]
            rows.append(
                {
                    "split": f"{recipe.settings['split']}, conv1 {recipe.settings['conv1']}",
                    "epsilon": f"{epsilon:g}",
                    **{
                        part: f"{noise[part]:.3f}" if part in noise else "-" for part in ("conv1", "conv2", "aggregate")
                    },
                    "by theorem 6": f"{plan.paper['epsilon']:.3f}",
                }
            )
    return rows


def _columns(*names: str) -> dict[str, tuple[str, ...]]:
    return {name: (name,) for name in names}


TABLES = (
    Listing(
        "datalens-privacy",
        "what the votes of DataLens cost, by theorem 3 and exactly",
        _columns(
            "recipe", "k", "sigma", "sensitivity", "steps by theorem 3", "their epsilon, exactly", "steps, exactly"
        ),
        votes,
        ("delta 1e-5; sensitivity of one query in the L2 norm, as theorem 3 has it.",),
    ),
    Listing(
        "dpaf-privacy",
        "noise of DPAF's parts for each split of the budget, on CelebA-Gender",
        _columns("split", "epsilon", "conv1", "conv2", "aggregate", "by theorem 6"),
        splits,
        ("Noise over sensitivity by sound accounting; the last column is the epsilon that theorem 6 claims for it.",),
    ),
)
