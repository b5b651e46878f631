"""Numbers that no change of shape may change: every plan of every recipe, and tiny runs at fixed seeds under one tape.

`python tests/test_snapshot.py` writes them anew. Do that only where a number is meant to change, and say why.
"""

from __future__ import annotations

import json
import sys
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from sfumato import Budget, Relation
from sfumato.audit.recording import recording_barrier
from sfumato.errors import SfumatoError
from sfumato.methods import Method, find, names
from sfumato.recipes import CLASSIFIERS, RECIPES
from tests.made_up import arrays
from tests.methods.test_contract import TINY, make, planned, taped

FOLDER = Path(__file__).parent / "snapshots"
EPSILONS = (0.2, 1.0, 3.0, 10.0)
EVERY = RECIPES | CLASSIFIERS
SHARE = 40  # of the plans, one in so many is made by default, all in the slow run
PIXELS = 2  # grey levels by which another processor's arithmetic may move a pixel
REFUSED = "refused"
# More ways of the methods that have several.
WAYS = {
    "datalens labels of the query": TINY["datalens"] | {"fake_labels": "query"},
    "datalens paper's order": TINY["datalens"] | {"order": "paper"},
    "datalens soft": TINY["datalens"]
    | {"rule": "soft", "blur": 1.0, "ema_decay": 0.9, "generator": "conv", "replay": 4},
    "datalens sketch": TINY["datalens"] | {"compress": "sketch", "share": 0.5},
    "dp-vae class": TINY["dp-vae"] | {"models": "class", "components": 2, "rounds": 2},
    "dp-vae cluster": TINY["dp-vae"] | {"models": "cluster", "clusters": 2, "rounds": 2},
    "dp-vae decoder again": TINY["dp-vae"] | {"second": "decoder", "second_steps": 2},
    "dp-vae flow": TINY["dp-vae"] | {"second": "flow", "second_steps": 2, "couplings": 2},
    "dpaf private": TINY["dpaf"] | {"conv1": "private"},
    "dpaf game": TINY["dpaf"] | {"conv1": "game", "classwise": True, "keep": 0.5, "together": True},
    "dpgan private decoder": TINY["dpgan"] | {"steps": 4, "decoder": "private", "decoder_steps": 2, "codes": 3},
    "dpgan adaptive": TINY["dpgan"] | {"critic_steps": 1, "ema_decay": 0.9},
    "dpdm codes": TINY["dpdm"] | {"codes": 2, "code_steps": 2, "code_width": 8, "trainable": "attention"},
    "dpdm adapters": TINY["dpdm"] | {"adapters": 2, "levels": "middle", "augment": "shift-flip"},
    "ndpdc linear": TINY["ndpdc"] | {"linear": True, "clip": 4.0},
    "private-set generator": TINY["private-set"] | {"prior": "generator", "prior_width": 8},
    "dpdm plain": TINY["dpdm"] | {"embedding_share": 0.0, "noise_multiplicity": 1},
}


def plans_of(name: str) -> dict[str, object]:
    """Each plan of a recipe, as its crossings' numbers."""
    return {
        f"{epsilon:g} {relation}": plan_of(name, epsilon, relation) for epsilon in EPSILONS for relation in Relation
    }


def plan_of(name: str, epsilon: float, relation: Relation) -> object:
    recipe = EVERY[name]
    try:
        made = recipe.make()
        plan = made.plan(recipe.spec(), Budget(epsilon, recipe.delta, relation))
    except (SfumatoError, ValueError):
        return REFUSED
    found = {n: [c.times, c.mechanism.multiplier, c.bound.norm] for n, c in plan.crossings.items()}
    return {**found, "epsilon": plan.epsilon(), "paper": plan.paper.get("epsilon")}


def way(name: str) -> Method:
    """The tiny method of a name, or of a way."""
    return find(name.split()[0])(**WAYS[name]) if name in WAYS else make(name)


def run_of(name: str) -> dict[str, object]:
    """Images of a whole tiny run under a tape, and the exact sums behind its answers."""
    method = way(name)
    images = taped(method)[1]
    pixels, labels = arrays()
    seen = recording_barrier.learn(
        method, planned(method), recording_barrier.MadeUp(pixels[:, None], labels), tape=1, seed=3
    )
    sums = [[asked.name, list(asked.exact.shape), float(asked.exact.double().norm())] for asked in seen.barrier.asked]
    return {"pixels": images.pixels[:3].reshape(-1).tolist(), "labels": images.labels.tolist(), "sums": sums}


def stored(kind: str) -> dict[str, object]:
    return json.loads((FOLDER / f"{kind}.json").read_text())


CASES = [(n, e, r) for n in EVERY for e in EPSILONS for r in Relation]


@pytest.mark.parametrize(
    ("name", "epsilon", "relation"),
    [pytest.param(*case, marks=[] if i % SHARE == 0 else [pytest.mark.slow]) for i, case in enumerate(CASES)],
)
def test_a_plan_is_as_it_was(name, epsilon, relation):
    before, now = stored("plans")[name][f"{epsilon:g} {relation}"], plan_of(name, epsilon, relation)
    if before == REFUSED:
        assert now == REFUSED
        return
    assert now.keys() == before.keys()
    for key, value in before.items():
        assert now[key] == pytest.approx(value, rel=1e-9), key


@pytest.mark.parametrize("name", [*names(), *WAYS])
def test_a_tiny_run_is_as_it_was(name):
    before, now = stored("runs")[name], run_of(name)
    assert np.abs(np.subtract(before["pixels"], now["pixels"])).max() <= PIXELS
    assert now["labels"] == before["labels"]
    assert [s[:2] for s in now["sums"]] == [s[:2] for s in before["sums"]]
    assert [s[2] for s in now["sums"]] == pytest.approx([s[2] for s in before["sums"]], rel=1e-4, abs=1e-6)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    runs = {name: run_of(name) for name in (*names(), *WAYS)}
    (FOLDER / "runs.json").write_text(json.dumps(runs))
    if sys.argv[1:] != ["runs"]:
        with get_context("spawn").Pool(2) as pool:
            plans = dict(zip(EVERY, pool.map(plans_of, EVERY, chunksize=4), strict=True))
        (FOLDER / "plans.json").write_text(json.dumps(plans, indent=0))
