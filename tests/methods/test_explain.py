"""A plan in sentences."""

from __future__ import annotations

import re

import pytest

from sfumato import Budget, DataSpec, Relation
from sfumato.methods import find
from sfumato.methods.explain import at_most

SPEC = DataSpec("made up", 6000, (1, 16, 16), ("0", "1", "2"))
GENERAL = ["Together", "What is free", "The paper's claim"]


def told(name, relation=Relation.ADD_REMOVE, epsilon=1.0, **settings):
    method = find(name)(**settings)
    plan = method.plan(SPEC, Budget(epsilon, relation=relation))
    return plan, {section.title: " ".join(section.sentences) for section in method.explain(plan)}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", ["dp-merf", "dpaf", "gs-wgan", "pate-gan", "private-evolution"])
def test_every_crossing_has_its_section_and_the_numbers_are_the_plans(name, relation):
    plan, said = told(name, relation)
    assert list(said) == [*(f"Crossing '{crossing}'" for crossing in plan.crossings), *GENERAL]
    for crossing, event in zip(plan.crossings, plan.events(), strict=True):
        words = said[f"Crossing '{crossing}'"]
        assert f"at most {event.sensitivity:.4g} (L2 norm)" in words and f"{event.sigma:.4g} is added" in words
        assert f"{event.times:,} times" in words if event.times > 1 else "used once" in words
        assert ("Sampling: none" in words) == (event.rate == 1)
    assert f"epsilon {at_most(plan.epsilon())} at delta 1e-05" in said["Together"]


def test_parts_and_records_are_told_apart():
    assert "each part of the data" in told("pate-gan")[1]["Crossing 'votes'"]
    assert "is replaced by another" in told("dp-merf", Relation.REPLACE_ONE)[1]["Crossing 'embedding'"]
    assert "blanked out" in told("dp-merf")[1]["Crossing 'embedding'"]


def test_what_crossings_cost_alone_adds_up_to_more_than_they_cost_together():
    plan, said = told("dpaf")
    alone = [float(re.search(rf"{name} ([\d.]+\d)", said["Together"])[1]) for name in plan.crossings]
    assert max(alone) < plan.epsilon() < sum(alone)


def test_the_papers_claim_stands_beside_ours_with_the_reason():
    plan, said = told("datalens", teachers=100)
    words = said["The paper's claim"]
    assert f"epsilon {at_most(plan.paper['epsilon'])}, ours {at_most(plan.epsilon())}" in words
    assert "not a guarantee of this software" in words and "Why they differ: theorem 3 is for one query" in words
    assert all(deviation in words for deviation in plan.deviations)


@pytest.mark.parametrize(("value", "shown"), [(1.0, "1"), (0.99999999999, "1"), (1.00001, "1.001"), (2e-7, "2e-07")])
def test_an_epsilon_is_never_shown_smaller(value, shown):
    assert at_most(value) == shown
