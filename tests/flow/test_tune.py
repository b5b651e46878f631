"""Tuning: free on public data, charged as one selection on private data."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import DPMERF, Budget, InputError, OverBudget, Run, load
from sfumato.accounting.selection import Runs
from sfumato.api import budget_of
from sfumato.data.made_up import made_up
from sfumato.flow.tune import candidates, judge, plan_selection, tune_private, tune_public

CLASSES = ("a", "b", "c")
TINY = {"features": ["40"], "batch": ["4"], "latent": ["4"], "width": ["8"]}
RUNS = Runs(3, 1)


def images(n=120, seed=0):
    return made_up(n, (1, 8, 8), CLASSES, seed)


def methods(steps=("2", "4")):
    return candidates("dp-merf", TINY | {"steps": list(steps)}, "uniform", CLASSES)


def test_a_judge_learns_classes_and_cannot_learn_noise():
    assert judge(images(300)).accuracy(images(200, seed=1)) > 0.9
    from sfumato.types import Images

    random = np.random.default_rng(0)
    noise = Images(random.integers(0, 256, (300, 1, 8, 8), dtype=np.uint8), np.arange(300) % 3, CLASSES)
    assert judge(noise).accuracy(images(300)) < 0.75


def test_public_tuning_ranks_all_and_spends_nothing():
    trials = tune_public(methods(), images(), images(60, 1), Budget(5.0), Run(device="cpu"))
    assert len(trials) == 2 and trials[0].score >= trials[1].score
    assert budget_of((images().pixels[:, 0], images().labels))["history"] == []


def test_a_selection_is_planned_within_its_budget_and_costs_more_than_one_run():
    spec = load(images()).spec
    plan = plan_selection(methods(), spec, Budget(2.0), RUNS)[0]
    assert 1.99 < plan.epsilon() <= 2.0
    one = DPMERF(features=40).plan(spec, Budget(2.0)).crossings["embedding"].mechanism.multiplier
    assert plan.crossings["embedding"].mechanism.multiplier > 1.5 * one


def test_a_grid_that_changes_the_crossings_is_refused_on_private_data():
    private = candidates("dp-merf", TINY, "private:0.5", CLASSES)
    with pytest.raises(InputError, match="crossings"):
        plan_selection([*methods(), *private], load(images()).spec, Budget(2.0), RUNS)


def test_private_tuning_is_one_charge_that_the_statement_names(tmp_path):
    box = load(images())
    release = tune_private(methods(), box, Budget(3.0), RUNS, Run(device="cpu"), out=tmp_path / "r", count=6)
    assert "charged by selection among 2 settings" in release.statement["tuning"]["summary"]
    assert release.statement["guarantee"]["epsilon"] == pytest.approx(3.0, rel=1e-3)
    shown = budget_of(images())
    assert len(shown["history"]) == 1 and shown["spent"] == pytest.approx(3.0, rel=1e-3)
    with pytest.raises(OverBudget):
        tune_private(methods(), load(images()), Budget(1.0), RUNS, Run(device="cpu"), out=tmp_path / "s", count=6)
