"""The box that opens a report: every line says what the statement, the images and the key give."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.release.documents.decision import CARE, GOOD, decision, to_do
from sfumato.release.documents.report import PAIR, make_report
from sfumato.release.files.sign import Signature
from sfumato.types import Images
from tests.release.documents.test_report import Page
from tests.release.files.test_fakes import fake_images, fake_plan, fake_release, fake_statement

KEY = Signature("0f" * 32, "Example Hospital <b>")
AUDIT = {
    "levels": [0],
    "verdict": "pass",
    "records": "made up",
    "audited_on": "cpu",
    "checks": [{"check": "blind barrier", "seen": "without data it does the same"}, {"check": "plan", "seen": "fits"}],
}


def lines(statement=None, images=None, signed=None):
    return {line.name: line for line in decision(statement or fake_statement(), images or fake_images(), signed)}


def test_a_person_is_better_protected_than_a_record():
    person = fake_plan(data={"unit": "person"}, guarantee={"unit": "person"})
    assert lines()["Who is protected"].state == CARE and "several images" in lines()["Who is protected"].text
    found = lines(fake_statement(person))
    assert found["Who is protected"].state == GOOD and "one person is in" in found["How strongly"].text
    assert any("--person" in step for step in to_do(fake_statement(), None))
    assert not any("--person" in step for step in to_do(fake_statement(person), None))


def test_epsilon_is_told_in_odds_and_a_large_one_gives_cause_for_care():
    one = lines()["How strongly"]
    assert "2.719-fold" in one.text and "1 in 100,000" in one.text and "55 %" in one.text and one.state == GOOD
    weak = lines(fake_statement(fake_plan(guarantee={"epsilon": 20.0, "mu": 4.0})))["How strongly"]
    assert "no bound in practice" in weak.text and weak.state == CARE


def test_an_unsigned_release_says_so_and_what_to_do():
    assert lines()["Signed"].text.startswith("Not signed") and lines()["Signed"].state == CARE
    signed = lines(signed=KEY)["Signed"]
    assert signed.state == GOOD and "0f0f" in signed.text and "Example Hospital" in signed.text
    assert any("unsigned" in step for step in to_do(fake_statement(), None))
    assert any("public key" in step for step in to_do(fake_statement(), KEY))


def test_the_ledger_and_its_other_runs_are_told():
    others = lines()["Ledger"]
    assert "1 other run" in others.text and others.state == CARE
    alone = lines(fake_statement(account={"runs": [], "epsilon_total": 1.0, "delta": 1e-5, "made": "2026-01-02"}))
    assert "No other run" in alone["Ledger"].text and "2026-01-02" in alone["Ledger"].text
    assert alone["Ledger"].state != CARE


def test_repeated_images_are_counted_once():
    images = fake_images(12)
    again = Images(np.concatenate([images.pixels] * 5), np.concatenate([images.labels] * 5), images.classes)
    assert "12, all distinct" in lines()["Images"].text and lines()["Images"].state != CARE
    found = lines(images=again)["Images"]
    assert "60 files, but 12 distinct" in found.text and "about 5 times" in found.text and found.state == CARE


def test_a_class_without_images_gives_cause_for_care():
    images = fake_images(10, labels=np.zeros(10, np.int64))
    assert lines(images=images)["Images"].state == CARE


def test_too_few_data_are_told():
    few = fake_statement(fake_plan() | {"warnings": ["Too few data: with 60 records the noise is 4 times the signal."]})
    assert lines(few)["Enough data"].state == CARE and "60 records" in lines(few)["Enough data"].text
    assert lines()["Enough data"].text.startswith("No warning for 60,000 records")


def test_what_the_publisher_says_is_told_and_a_licence_is_asked_for_once():
    assert not {"Licence", "Title", "Whom to ask"} & lines().keys()
    said = fake_statement() | {"publication": {"license": "cc-by-4.0", "title": "Films <b>", "contact": "the office"}}
    found = lines(said)
    assert [found[name].text for name in ("Licence", "Title", "Whom to ask")] == list(said["publication"].values())
    assert any("Choose a licence" in step for step in to_do(fake_statement(), None))
    assert any("Choose a licence" in step for step in to_do(fake_statement() | {"publication": {"title": "a"}}, None))
    assert not any("Choose a licence" in step for step in to_do(said, None))
    page = make_report(said, fake_images())
    assert "<h1>Films &lt;b&gt;</h1>" in page and "cc-by-4.0" in page and "the office" in page
    assert "in synthetic images</h1>" in make_report(fake_statement(), fake_images())


def test_the_page_opens_with_the_box_and_lists_the_audit():
    text = Page(make_report(fake_statement(audit=AUDIT), fake_images(90), signed=KEY)).text
    box = text.index("Before you publish")
    assert box < text.index("In plain words") and text.index("Still to do") > box
    assert "Example Hospital <b>" in text and "Choose a licence" in text and "--publish-accuracy" in text
    for row in AUDIT["checks"]:
        assert row["check"] in text and row["seen"] in text
    assert "2 checks, each listed with what it saw" in text


@pytest.mark.parametrize(("classes", "side_by_side"), [(("ill", "well"), True), (("a", "b", "c"), False)])
def test_two_classes_lie_side_by_side(classes, side_by_side):
    labels = np.arange(90) % len(classes)
    images = Images(fake_images(90).pixels, labels, classes)
    page = Page(make_report(fake_statement(), images))
    assert any(a.get("class") == "pair" for _, a in page.tags) == side_by_side
    if side_by_side:
        shown = [a["alt"] for tag, a in page.tags if tag == "img"]
        assert shown == [f"synthetic image of class {name}" for name in classes for _ in range(PAIR)]


def test_the_box_is_what_a_saved_release_shows(tmp_path):
    text = (fake_release().save(tmp_path / "release") / "report.html").read_text()
    assert "Not signed" in text
