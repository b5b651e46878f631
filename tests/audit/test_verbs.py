"""Whole commands on neighbours, as they are and with mistakes in them."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from sfumato import DPMERF, DataSpec, api, audit
from sfumato.classify.classifier import Classifier

TINY = DPMERF(features=20, steps=3, batch=4, latent=4, width=8)


def failing(report):
    return {row.check for row in report.failed}


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        (audit.check_synthesize, TINY),
        (audit.check_classifier, Classifier(steps=3)),
        (audit.check_tune, TINY),
        (audit.check_publish, None),
    ],
    ids=["synthesize", "train-classifier", "tune", "publish-accuracy"],
)
def test_a_command_as_it_is_passes(check, subject):
    report = check(subject)
    assert report.verdict == "pass", report.failed
    assert len(report.rows) >= 3


PRIVATE = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"), count_public=False)


@pytest.mark.parametrize("check", [audit.check_synthesize, audit.check_publish], ids=["synthesize", "publish-accuracy"])
def test_a_private_count_does_not_show(check):
    report = check(TINY, spec=PRIVATE)
    assert report.verdict == "pass", report.failed


def test_a_document_with_a_private_number_is_caught():
    state, box = api.state, []
    inner = api._box

    def opened(data, **options):
        box.append(inner(data, **options))
        return box[-1]

    def telling(*given, **more):
        from sfumato.ledger.charge import digests_of

        made = state(*given, **more)
        made["tuning"] = {"summary": f"{made['tuning']['summary']} {digests_of(box[-1]).sum()}"}
        return made

    with patch("sfumato.api._box", opened), patch("sfumato.api.state", telling):
        report = audit.check_synthesize(TINY)
    assert failing(report) == {"synthesize: flow"}


def test_a_second_run_under_one_reservation_is_caught():
    barrier = api._barrier

    def twice(box, run):
        from dataclasses import replace

        from sfumato.privacy.odometer import Odometer

        TINY.learn(barrier(box, other := replace(run, folder=None, odometer=Odometer(run.odometer.plan))), other)
        return barrier(box, run)

    with patch("sfumato.api._barrier", twice):
        report = audit.check_synthesize(TINY)
    assert "2 runs were made under one reservation" in report.failed[0].detail


def test_a_selection_that_shows_how_many_runs_it_made_is_caught():
    from sfumato.flow import tune

    best = tune._best_of

    def telling(*given):
        found = best(*given)
        given[4].progress.start(f"the best of {len(audit.verbs._ODOMETERS)}", None)
        return found

    with patch("sfumato.flow.tune._best_of", telling):
        report = audit.check_tune(TINY)
    assert failing(report) == {"tune --private: hidden runs"}


def test_a_selection_by_the_exact_score_is_caught():
    from sfumato.audit.verbs import _HEARD
    from sfumato.flow import tune

    one = tune._one

    def exact(*given):
        from dataclasses import replace

        found = one(*given)
        votes = _HEARD[-1][1]
        return replace(found, score=float(votes[0] - votes[1]))

    with patch("sfumato.flow.tune._one", exact):
        report = audit.check_tune(TINY)
    assert "tune --private: choice" in failing(report)
