"""Whole commands on neighbours, as they are and with mistakes in them."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from sfumato import DPMERF, Budget, DataSpec
from sfumato.classify.classifier import Classifier
from sfumato.data.public import PublicImages
from sfumato.flow import flow, synthesize, tune, verbs_audit
from sfumato.flow.verbs_audit import _cut, check_classifier, check_publish, check_synthesize, check_tune, looked_at
from sfumato.ledger.charge import digests_of
from sfumato.privacy.odometer import Odometer
from sfumato.types import Images

TINY = DPMERF(features=20, steps=3, batch=4, latent=4, width=8)


def failing(report):
    return {row.check for row in report.failed}


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        (check_synthesize, TINY),
        (check_classifier, Classifier(steps=3)),
        (check_tune, TINY),
        (check_publish, None),
    ],
    ids=["synthesize", "train-classifier", "tune", "publish-accuracy"],
)
def test_a_command_as_it_is_passes(check, subject):
    report = check(subject)
    assert report.verdict == "pass", report.failed
    assert len(report.rows) >= 3


SMALL = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
PRIVATE = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"), count_public=False)


@pytest.mark.parametrize("check", [check_synthesize, check_publish], ids=["synthesize", "publish-accuracy"])
def test_a_private_count_does_not_show(check):
    report = check(TINY, spec=PRIVATE)
    assert report.verdict == "pass", report.failed


def test_a_document_with_a_private_number_is_caught():
    state, before, boxes = synthesize.state, flow.barrier_before, []

    def opened(box, run):
        boxes.append(box)
        return before(box, run)

    def telling(*given, **more):
        made = state(*given, **more)
        made["tuning"] = {"summary": f"{made['tuning']['summary']} {digests_of(boxes[-1]).sum()}"}
        return made

    with patch("sfumato.flow.flow.barrier_before", opened), patch("sfumato.flow.synthesize.state", telling):
        report = check_synthesize(TINY)
    assert failing(report) == {"synthesize: flow"}


def test_a_second_run_under_one_reservation_is_caught():
    before = flow.barrier_before

    def twice(box, run):
        other = replace(run, folder=None, odometer=Odometer(run.odometer.plan))
        TINY.learn(before(box, other), other)
        return before(box, run)

    with patch("sfumato.flow.flow.barrier_before", twice):
        report = check_synthesize(TINY)
    assert "2 runs were made under one reservation" in report.failed[0].detail


def test_a_selection_that_shows_how_many_runs_it_made_is_caught():
    learn = tune.Selection.learn

    def telling(self, reserved):
        best = learn(self, reserved)
        reserved.run.progress.start(f"the best of {len(verbs_audit._ODOMETERS)}", None)
        return best

    with patch("sfumato.flow.tune.Selection.learn", telling):
        report = check_tune(TINY)
    assert failing(report) == {"tune --private: hidden runs"}


def test_a_selection_by_the_exact_score_is_caught():
    hidden = tune.run_hidden

    def exact(*given):
        scored = hidden(*given)
        votes = verbs_audit._HEARD[-1][1]
        return replace(scored, score=float(votes[0] - votes[1]))

    with patch("sfumato.flow.tune.run_hidden", exact):
        report = check_tune(TINY)
    assert "tune --private: choice" in failing(report)


def test_large_images_are_looked_at_smaller():
    large = DataSpec("made up", 60, (3, 64, 64), ("0", "1"))
    assert looked_at(TINY, TINY.plan(large, Budget(2.0))).data.shape == (3, 16, 16)
    assert looked_at(TINY, TINY.plan(SMALL, Budget(2.0))).data.shape == (1, 8, 8)


def test_public_images_are_looked_at_as_small_as_the_records():
    pixels = np.zeros((4, 1, 28, 28), np.uint8)
    public = PublicImages(Images(pixels, np.zeros(4, np.int64)), "made up")
    assert _cut(public, (1, 28, 28), (1, 16, 16)).images.pixels.shape == (4, 1, 16, 16)
    assert _cut(public, (1, 8, 8), (1, 8, 8)) is public and _cut(None, (1, 8, 8), (1, 8, 8)) is None
