"""The page of an evaluation: what it shows, what it hides, where it goes."""

from __future__ import annotations

import stat
from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.evaluate.attacks.scores import ABOVE, BELOW, assess, ceiling_of
from sfumato.evaluate.baseline import baseline
from sfumato.evaluate.drawings import confusion_svg, roc_svg, shares_of, trade_svg
from sfumato.evaluate.grids import address, mosaic, neighbours
from sfumato.evaluate.real import Fold, Real
from sfumato.evaluate.report import make_html, write_html
from sfumato.evaluate.results import Measured, Report, over_seeds, plain
from sfumato.evaluate.utility import describe, gaps, over_classifiers
from sfumato.evaluate.wording import against_baseline, headline, interval, rate, recall_words, spread, useful_words
from tests.release.documents.test_report import VOID, Page
from tests.release.files.test_fakes import CLASSES, fake_images, fake_release

VOID |= {"rect"}
COMMAND = "sfumato evaluate release --data scans --seeds 2"


def fake_part(n, seed, public):
    images = fake_images(n, seed=seed)
    digests = np.random.default_rng(seed).integers(0, 256, (n, 32), dtype=np.uint8)
    return Fold("scans", images.pixels, images.labels, digests, public)


def fake_real(public=False):
    return Real(fake_part(60, 1, public), fake_part(40, 2, public), None, 0 if public else 2)


def trained(labels, right, protocol="fixed", groups=None):
    """Classifiers that are right about so many images, more so with the second seed."""
    rows = {}
    for at, name in enumerate(("cnn", "mlp")):
        random = np.random.default_rng(at)
        logits = random.normal(size=(2, len(labels), 3)).astype(np.float32)
        logits[:, np.arange(len(labels)), labels] += right - at * 0.5
        last = (logits.argmax(-1) == labels).mean(1)
        looks = np.stack([last - 0.1, last + 0.02, last], 1)
        rows[name] = describe(logits, looks, labels, CLASSES, protocol, groups)
    return {
        "protocol": protocol,
        "protocol_means": "fixed schedule, last step",
        "trained_on": 60,
        "tested_on": 40,
        "seeds": 2,
        "looks": 3,
        "baseline": baseline(labels, CLASSES),
        "classifiers": rows,
        **over_classifiers(rows),
    }


def fake_attacks(release, leak=0.0):
    random, ceiling = np.random.default_rng(3), ceiling_of(release.statement)
    members, others = random.normal(leak, 1, 400), random.normal(0, 1, 400)
    found = {
        "logan": assess(members, others, ceiling),
        "white-box": {"verdict": "does not apply", "note": "no latents"},
    }
    above = [name for name, row in found.items() if row["verdict"] == ABOVE]
    return {
        "attacks": found,
        "ceiling": ceiling.to_json(),
        "verdict": ABOVE if above else BELOW,
        "above": above,
        "samples": 100,
        "reference": 20,
        "warning": "members and others differ",
    }


def fake_report(release, real, protocol="fixed", leak=0.0, **more):
    labels = real.test.labels
    ours, theirs = trained(labels, 1.5, protocol, np.array(["<b>", "y"] * 20)), trained(labels, 4.0, protocol)
    utility = {
        "synthetic": ours,
        "real": theirs,
        "reference": None,
        "gap_to_reference": None,
        "gap_to_real": gaps(ours, theirs, "real minus synthetic"),
    }
    values = {
        "fid/classifier": Measured("fid", 12.5, 11.0, 14.0, (12.0, 13.0), "60 real and 90 synthetic images"),
        "kid/classifier": Measured("kid", 1e-3, -1e-3, 3e-3, (0.0, 2e-3)),
        "inception-score": over_seeds("inception-score", [2.0, 2.1]),
    }
    sections = {
        "software": "sfumato 0.1.0",
        "touched": ["The private test set has been used 2 times."],
        "settings": {"protocol": protocol, "classifiers": ["cnn", "mlp"], "seeds": 2, "device": "cpu"},
        "release": {
            "method": "dp-merf",
            "guarantee": release.statement["guarantee"],
            "images": len(release.images),
            "distinct": release.distinct,
            "shape": [1, 8, 6],
            "classes": list(CLASSES),
        },
        "data": {
            "train": "scans",
            "train_records": 60,
            "test": "scans",
            "test_records": 40,
            "public": not real.private,
            "accesses": 2,
            "shared": 0,
            "test_persons": 7,
            "warnings": ["3 images are shared."],
        },
        "left_out": ["attacks not tried: white-box", "Add --full for all of it."],
        "utility": utility,
        "attacks": fake_attacks(release, leak),
        "seconds": {"utility": 1.5},
        "fidelity": {
            "against": "training images",
            "features": ["classifier"],
            "values": values,
            "skipped": {"efficientnet-lite0": "no weights"},
        },
    }
    sections["headline"] = headline(plain(sections))
    return Report(sections | more, real.private, real.accesses, COMMAND)


@pytest.fixture(scope="module")
def release():
    return fake_release(fake_images(90), audit={"levels": [0], "verdict": "pass", "records": "made up"})


def page(release, public=False, **options):
    real = fake_real(public)
    return make_html(fake_report(release, real, **options), release, real)


@pytest.fixture(scope="module")
def private(release):
    return page(release)


@pytest.fixture(scope="module")
def public(release):
    return page(release, public=True)


def test_a_page_of_private_data_says_so_first_and_last(private, public):
    text = Page(private).text
    assert text.index("Internal: shows real images") < text.index("Sfumato evaluation")
    assert "Internal: it shows real images" in text and "used 2 times" in text
    assert "Internal" not in Page(public).text and "Nothing private: scans is a public set" in Page(public).text


def test_nearest_training_images_are_shown_of_public_data_alone(private, public, release):
    assert "Nearest training images" in public and "Nearest training images" not in private
    assert neighbours(fake_real(False), release.images) is None


def test_a_copy_lies_at_distance_nothing(release):
    real = fake_real(public=True)
    copied = replace(real, train=replace(real.train, pixels=release.images.pixels[:60].copy()))
    found = neighbours(copied, release.images)
    assert [row["near"][0]["distance"] for row in found["rows"]] == pytest.approx([0, 0, 0], abs=1e-5)
    assert found["rows"][0]["near"][0]["picture"] == found["rows"][0]["synthetic"] and found["usual"] > 10


def test_real_images_stand_beside_synthetic_ones_in_every_class(private, release):
    images = [a for tag, a in Page(private).tags if tag == "img"]
    for kind in ("real", "synthetic"):
        for name in CLASSES:
            assert len([a for a in images if a["alt"] == f"{kind} image of class {name}"]) == 8
    shown = {a["src"] for a in images if a["alt"].startswith("real image of")}
    assert address(fake_real().train.pixels[0]) in shown and address(release.images.pixels[0]) not in shown


def test_nothing_is_loaded_and_no_name_becomes_markup(private, public):
    for html in (private, public):
        found = Page(html)
        assert not {tag for tag, _ in found.tags} & {"script", "link", "iframe", "object"}
        assert all(a["src"].startswith("data:image/png;base64,") for t, a in found.tags if t == "img")
        assert not any(name.startswith("on") or name == "href" for _, a in found.tags for name in a)
        assert "<script" not in html and "alert(1)</script>" in found.text and "http://" not in html
        assert "default-src 'none'" in html and "<b>" in found.text  # a subgroup of this name


def test_the_tables_hold_the_numbers(private, release):
    real = fake_real()
    sections = fake_report(release, real).to_json()["sections"]
    text = Page(private).text
    for name, row in sections["utility"]["synthetic"]["classifiers"].items():
        gap = sections["utility"]["gap_to_real"][name]
        for words in (
            spread(row["fixed"]),
            interval(row["fixed"], percent=True),
            f"{100 * gap['mean']:.1f}",
            rate(row["calibration"]["mean"]),
        ):
            assert words in text
    assert "12.5" in text and "11 to 14" in text and "efficientnet-lite0: not measured. no weights" in text
    assert "pass, level 0; records made up" in text and text.rstrip().count(COMMAND) == 1
    assert "3 images are shared." in text and "Members and others differ." in text and "gap, points" in text


def test_the_papers_protocol_is_beside_it_only_when_asked_and_labelled(private, release):
    label = "selection on the test set"
    assert label not in private
    text = Page(page(release, protocol="paper")).text
    assert text.count(label) >= 3 and "best test evaluation" in text.lower()


def test_an_attack_above_the_bound_raises_an_alarm(private, release):
    assert "No attack did better" in private and "does not apply" in private
    text = Page(page(release, leak=3.0)).text
    assert "Above the bound." in text and "do not publish this release before" in text
    assert "No attack did better" not in text


def test_parts_that_were_not_measured_are_left_out(release):
    real = fake_real()
    whole = fake_report(release, real)
    few = {k: v for k, v in whole.sections.items() if k not in ("utility", "fidelity", "attacks")} | {"headline": None}
    text = Page(make_html(replace(whole, sections=few, command=""), release, real)).text
    assert "Usefulness was not measured" in text and "No attack was tried" in text
    skipped = few | {"attacks": {"skipped": "too few images"}, "fidelity": {"skipped": "not available here"}}
    text = Page(make_html(replace(whole, sections=skipped), release, real)).text
    assert "Not tried: too few images" in text and "not available here" in text


def test_the_page_of_private_data_is_for_its_owner_alone(release, tmp_path):
    real = fake_real()
    path = write_html(fake_report(release, real), release, real, tmp_path / "evaluation")
    assert path == tmp_path / "evaluation" / "report.html" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_html(fake_report(release, real), release, real, tmp_path / "file")


def test_more_classes_than_can_be_named_are_a_picture(release):
    from sfumato.evaluate.report import _confusion

    many = _confusion(np.eye(50).tolist(), [str(i) for i in range(50)])
    assert many["svg"] is None and many["picture"].startswith("data:image/png")


def test_drawings():
    drawn = confusion_svg([[8, 2], [0, 0]], ["<i>", "b"])
    assert "&lt;i&gt;" in drawn and ">80<" in drawn and ">20<" in drawn and "<i>" not in drawn
    assert shares_of([[0, 0], [1, 3]]).tolist() == [[0, 0], [0.25, 0.75]]
    for log in (False, True):
        curve = roc_svg([[(0.0, 0.0), (0.5, 0.6), (1.0, 1.0)]], [[1e-4, 0.01], [0.1, 0.4], [1.0, 1.0]], log=log)
        assert curve.count("<polyline") == 3 and "beyond" in curve and "nan" not in curve
    row = {"epsilon": 1.0, "accuracy": {"mean": 0.5, "low": 0.4, "high": 0.6, "values": [0.4, 0.6]}, "number": 1}
    dots = trade_svg([row | {"comparable": True}, row | {"comparable": False, "epsilon": 10.0}], 0.9)
    assert dots.count('class="mark"') == 1 and dots.count('class="hollow"') == 1 and "90.0 %" in dots


def test_words():
    one = {"mean": 0.5, "low": 0, "high": 1, "values": [0.5]}
    assert (spread(one), interval(one)) == ("50.0 %", "one seed")
    two = {"mean": 0.5, "low": 0.4, "high": None, "values": [0.4, 0.6]}
    assert (spread(two), interval(two)) == ("50.0 ± 14.1 %", "0.4 to ∞")
    assert len(mosaic(fake_images(5).pixels)) == 5 and len(mosaic(fake_images(90).pixels)) == 64


def told(**changes):
    """Sections with a headline of these numbers."""
    found = {
        "classifier": "cnn",
        "accuracy": {"mean": 0.6},
        "test_error": 0.03,
        "baseline": {"class": "ill", "accuracy": 1 / 3, "guessing": 1 / 3},
        "margin": {"mean": 0.27, "low": 0.2, "high": 0.3},
        "balanced": {"mean": 0.55},
        "auroc": {"mean": 0.8123},
        "recall": {"ill": 0.9, "well": 0.2, "unseen": None},
        "real": 0.9,
        "real_classifier": "mlp",
    } | changes
    verdict = against_baseline(found["margin"], found["baseline"])
    return {"headline": found | {"verdict": verdict}, "utility": {"synthetic": {"classifiers": {"cnn": 0, "mlp": 0}}}}


@pytest.mark.parametrize(
    ("ours", "real", "said"),
    [(0.6, 0.9, "keep about 47 %"), (0.33, 0.9, "little or nothing"), (0.3, 0.3, "says nothing")],
)
def test_what_the_images_are_worth(ours, real, said):
    assert said in useful_words(told(accuracy={"mean": ours}, real=real))[-1]


def test_the_words_put_the_commonest_class_first_and_leave_nothing_out():
    words = useful_words(told())
    assert "60.0 %" in words[0] and "3.0 points" in words[0]
    assert words[1] == "Better than always answering 'ill', the commonest class (33.3 %)."
    assert "55.0 % (guessing: 33.3 %); the AUROC is 0.812 (guessing: 0.5)" in words[2]
    assert words[4] == "Trained on the real images, the best (mlp) reaches 90.0 %."
    assert words[3] == "Recall by class: ill 90.0 %, well 20.0 %."
    many = recall_words({str(at): at / 20 for at in range(15)})
    assert many == "The classes recalled least: 0 0.0 %, 1 5.0 %, 2 10.0 %."


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.01, 0.1, "Better"), (-0.1, -0.01, "of no use"), (-0.1, 0.1, "Not shown to be better")]
)
def test_a_claim_is_no_larger_than_the_test_set_allows(low, high, said):
    assert said in useful_words(told(margin={"mean": 0.0, "low": low, "high": high}))[1]


def test_the_page_leads_with_the_honest_numbers(private, release):
    text = Page(private).text
    found = fake_report(release, fake_real()).to_json()["sections"]["headline"]
    for words in (
        rate(found["balanced"]["mean"]),
        rate(found["baseline"]["accuracy"]),
        "by always answering",
        "AUROC; guessing gives 0.5",
        "distinct images among 90",
        "of 7 persons",
        "Recall of each class",
        "Left out to be quick: attacks not tried: white-box. Add --full for all of it.",
        "upper bound implied by (ε, δ)",
    ):
        assert words in text, words
    assert "ceiling" not in text.lower()


def test_large_images_are_made_smaller():
    import base64
    import io

    from PIL import Image

    packed = address(np.zeros((3, 300, 200), np.uint8)).partition(",")[2]
    assert Image.open(io.BytesIO(base64.b64decode(packed))).size == (64, 96)
