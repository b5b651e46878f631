"""The auditors are proved on planted bugs: each is caught, each correct twin passes."""

from __future__ import annotations

import json
import logging

import pytest
import torch

from sfumato.audit import gallery
from sfumato.audit.gallery import engine, gradients, leaks, runs, together
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.gradients.validate import mixes_examples
from sfumato.errors import InputError

WHOLE = [bug.id for bug in (*leaks.BUGS, *runs.BUGS, *together.BUGS)]
# What is different between neighbours, or without data, as the finding has it.
TOLD = {
    "B29": "takes no part, moved by",
    "B33": "number, order or shapes",
    "B35": "_inside",
    "B36": "noise",
    "B37": "counts were changed",
    "B39": "buffers",
    "B40": "progress",
    "B41": "standard output",
    "B42": "log lines",
    "B43": "brightness below",
    "B44": "previews",
    "B46": "made",
}


@pytest.fixture(scope="module")
def rows():
    return {row["id"]: row for row in gallery.run(seed=11)}


def test_there_are_forty_eight_bugs_and_two_controls(rows):
    assert sorted(rows) == [f"B{i:02}" for i in range(1, 51)]
    assert [i for i, row in rows.items() if row["expected"] == "pass"] == ["B26", "B27"]


@pytest.mark.parametrize("bug", [bug.id for bug in gallery.BUGS])
def test_the_bug_is_caught_and_its_twin_passes(rows, bug):
    row = rows[bug]
    assert row["ok"], row
    assert row["verdict"] == row["expected"] and row["twin"] == "pass"
    assert any(c.isdigit() for c in row["detail"]) or bug in ("B15", "B17") or bug in WHOLE


def test_a_bug_counts_as_caught_only_by_the_check_that_is_meant_to(rows):
    for bug in gallery.BUGS:
        assert set(rows[bug.id]["by"]) <= set(bug.by)


def test_a_method_that_leaks_by_the_side_is_told_where(rows):
    assert {i: rows[i]["detail"] for i in TOLD if TOLD[i] not in rows[i]["detail"]} == {}


def by_id(name):
    return next(bug for bug in gallery.BUGS if bug.id == name)


def test_teachers_share_moments_only_where_they_visit_the_device():
    found = gallery.findings_of(by_id("B30"), True, 0)
    assert {f.check for f in found if not f.ok} == {"forced paths"}
    assert next(f for f in found if f.check == "teachers moved").ok


def test_a_shared_sample_shows_in_no_crossing_alone():
    found = gallery.findings_of(by_id("B47"), True, 0)
    assert {f.check for f in found if not f.ok} == {"inclusion across noisy queries"}


def test_what_a_method_logs_is_heard_and_shown_to_nobody(capsys):
    root, heard = logging.getLogger(), logging.StreamHandler()
    root.addHandler(heard)
    try:
        level = root.level
        assert not all(f.ok for f in gallery.findings_of(by_id("B42"), True, 0))
        assert heard in root.handlers and root.level == level
    finally:
        root.removeHandler(heard)
    assert "loss" not in "".join(capsys.readouterr())


def test_rows_are_plain_values(rows):
    assert json.loads(json.dumps(list(rows.values()), allow_nan=False))[0]["id"] == "B01"


def test_games_of_higher_levels_convict_too(rows):
    assert all("step audit" in rows[i]["by"] for i in ("B01", "B02", "B07", "B10", "B11"))
    assert all("end to end" in rows[i]["by"] for i in ("B03", "B09", "B21", "B49"))


def test_the_measured_sensitivity_is_told(rows):
    assert "moved by 128 (127.8 times" in rows["B13"]["detail"]
    assert "moved the answer by 129" in rows["B14"]["detail"] and "exceeded 128.9 times" in rows["B14"]["detail"]


def test_the_real_engine_refuses_what_its_trial_was_left_out_for():
    images, labels = torch.rand(4, 1, 1, engine.D), torch.zeros(4, dtype=torch.long)
    query = per_example(gradients.critic_net(mixing=True), gradients.critic_loss, 1.0)
    assert query._settle(images, ()) != "ghost"  # one example at a time, where the layer does nothing
    assert mixes_examples(query.net, images)
    rows, changed = query.rows(images, labels), query.rows(torch.cat([1 - images[:1], images[1:]]), labels)
    assert torch.equal(rows[1:], changed[1:])
    with pytest.raises(InputError, match="use GroupNorm"):
        per_example(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8)), gradients.critic_loss, 1.0)


def test_a_row_that_is_wrong_says_so(monkeypatch):
    blind = [bug for bug in gallery.BUGS if bug.id == "B23"][0]
    monkeypatch.setattr(gallery, "BUGS", (gallery.Bug(blind.id, blind.name, lambda bug: blind.build(False), blind.by),))
    assert [row["ok"] for row in gallery.run()] == [False]


def test_the_controls_raise_no_alarm_over_five_seeds():
    assert gallery.control_alarms(range(5)) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_controls_raise_at_most_one_alarm_over_two_hundred_seeds():
    assert len(gallery.control_alarms(range(200))) <= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_twins_raise_at_most_one_alarm_over_forty_seeds():
    assert len(gallery.control_alarms(range(40), twins=True)) <= 1
