"""DP-NTK: its plan and that it learns."""

from __future__ import annotations

import pytest

from sfumato import DPMERF, DPNTK, Budget, Relation
from tests.one_release import MNIST, bright_and_dark, learned_apart


@pytest.mark.parametrize("relation", list(Relation))
def test_features_of_norm_one_cost_what_they_cost_elsewhere(relation):
    budget = Budget(1.0, relation=relation)
    assert DPNTK().plan(MNIST, budget).crossings == DPMERF().plan(MNIST, budget).crossings


def test_the_small_one_declares_the_same():
    method = DPNTK(hidden=64)
    assert method.small().plan(MNIST, Budget(1.0)).crossings == method.plan(MNIST, Budget(1.0)).crossings


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"gain": 0.0}, {"latent": 0}, {"batch": 0}])
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPNTK(**bad)


def test_it_learns_what_is_easy():
    assert learned_apart(DPNTK(hidden=8, steps=80, batch=8, latent=4, width=8), bright_and_dark()) > 60
