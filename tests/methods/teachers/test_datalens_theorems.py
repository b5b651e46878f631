"""Theorems 4 to 6 at the numbers of a plan."""

from __future__ import annotations

import math

import pytest

from sfumato import Budget, DataLens, DataSpec
from sfumato.accounting.claims import datalens

SPEC = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
PAPER = DataLens(topk=200, sigma=5000, threshold=0.7)


def remarks(method=PAPER):
    plan = method.plan(SPEC, Budget(1.0))
    return plan, {section.title.split(":")[0]: section for section in method.remarks(plan)}


def test_theorem_five_is_shown_as_printed_and_as_corrected():
    _, said = remarks()
    rows = {(f, name): chances for f, name, *chances in said["Theorem 5"].rows}
    for (_, name), chances in rows.items():
        if name == "corrected":
            assert chances[-1] == pytest.approx(1) and min(chances) > 0
    assert rows[0.0, "printed"][-1] == pytest.approx(1.42, abs=6e-3)
    assert rows[4000.0, "printed"][1] < 0
    right = rows[4000.0, "corrected"]
    assert rows[-4000.0, "corrected"][:3] == pytest.approx(right[2::-1])


def test_the_bound_on_votes_is_labelled_and_helps_far_from_the_threshold_alone():
    plan, said = remarks()
    section = said["Theorem 4"]
    assert section.sentences[0].startswith("MAY NOT BE RELEASED: it depends on the votes")
    *near, far = section.rows
    claimed = datalens(200, 5000, 1e-5, queries=plan.facts["queries"])["epsilon"]
    for _, _, q, _, epsilon in near:
        assert q > 0.3 and epsilon == pytest.approx(claimed, rel=2e-3)
    _, printed, right, too_small, epsilon = far
    assert right == pytest.approx(784 * 0.5 * math.erfc(5 / math.sqrt(2)), rel=1e-3)
    assert printed < right / 100 and too_small < epsilon < claimed / 5


def test_theorem_six_at_the_plans_numbers():
    plan, said = remarks()
    terms = {name: values for name, *values in said["Theorem 6"].rows}
    T = plan.facts["steps"]
    assert terms["start"] == pytest.approx([1 / (T * 1e-3)] * 2)
    assert terms["noise"] == pytest.approx([1e-3 * 5000**2, 1e-3 * 784 * (5000 / 4000) ** 2])
    assert terms["size of a step"] == pytest.approx([2e-3 * (200 + 1), 2e-3 * (200 + 200)])
    assert "promises nothing" in said["Theorem 6"].sentences[-1] and f"T = {T}" in said["Theorem 6"].sentences[1]


def test_sign_sgd_votes_on_every_pixel():
    _, said = remarks()
    dense = DataLens(compress="dense", steps=149).plan(SPEC, Budget(1.0)).events()[0].sensitivity
    assert f"2 sqrt(d) = {dense:.4g}" in said["Sign-SGD as a special case"].sentences[1]


@pytest.mark.parametrize("other", [{"compress": "sketch"}, {"compress": "lattice"}, {"share": 0.02}])
def test_other_votes_than_signs_of_all_have_no_theorem(other):
    _, said = remarks(DataLens(steps=10, **other))
    assert list(said) == ["Theorems 4 to 6"]
