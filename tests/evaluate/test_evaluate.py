"""The whole evaluation: what it says, where it writes, what it counts."""

from __future__ import annotations

import hashlib
import json
import shlex
import stat
from pathlib import Path

import numpy as np
import pytest

from sfumato import DPMERF, Budget, Release, api, load
from sfumato.accounting.budget import Relation
from sfumato.errors import InputError, OverBudget
from sfumato.evaluate.evaluate import evaluate
from sfumato.evaluate.place import check_place
from sfumato.evaluate.real import counts_path
from sfumato.evaluate.reference import Training, reference
from sfumato.evaluate.stacked import Schedule
from sfumato.flow.publish import VOTE, publish_accuracy
from sfumato.ledger.job import runs_folder
from sfumato.ledger.store import Ledger, default_path
from sfumato.run.progress import Recorder

QUICK = {name: Schedule(steps=30, batch=32, rate=3e-3) for name in ("cnn", "mlp", "logreg")}
QUICK["reference"] = Training(steps=2, batch=8, width=8, latent=4)


def bars(n, seed):
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    pixels = random.integers(0, 100, (n, 8, 8), dtype=np.uint8)
    for at in range(3):
        pixels[labels == at, 2 * at : 2 * at + 2] += 150
    return pixels, labels


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A private data set with two splits, and a release made from it at a generous epsilon."""
    home = tmp_path_factory.mktemp("made")
    (x, y), (u, v) = bars(300, 0), bars(150, 1)
    np.savez(home / "bars.npz", train_images=x, train_labels=y, test_images=u, test_labels=v)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_RUNS", str(home / "runs"))
        patch.setenv("SFUMATO_CACHE", str(home / "cache"))
        api.synthesize(
            DPMERF(features=200, steps=60, batch=16),
            str(home / "bars.npz"),
            Budget(epsilon=50),
            count=120,
            out=home / "release",
            ledger=home / "ledger",
        )
    return home / "release", str(home / "bars.npz")


def prints(folder):
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in Path(folder).rglob("*")
        if p.is_file()
    }


@pytest.fixture
def quick(places, tmp_path):
    release, data = places

    def run(**options):
        given = {
            "classifiers": ["mlp"],
            "metrics": ["utility"],
            "seeds": 2,
            "schedules": QUICK,
            "out": tmp_path / "out",
        } | options
        return evaluate(release, data, device="cpu", **given)

    return run


def test_utility_beside_real_data_and_the_reference(quick):
    made = quick(reference=True, classifiers=["mlp", "forest"], groups=["x", "y", "z"] * 50).to_json()["sections"]
    rows = made["utility"]
    assert rows["real"]["classifiers"]["mlp"]["accuracy"]["mean"] > 0.9
    lost = rows["gap_to_real"]["mlp"]["mean"]
    assert lost == pytest.approx(
        rows["real"]["classifiers"]["mlp"]["accuracy"]["mean"]
        - rows["synthetic"]["classifiers"]["mlp"]["accuracy"]["mean"]
    )
    assert set(rows["gap_to_reference"]) == {"mlp", "forest"} and "DC-GAN" in rows["reference"]["trained_by"]
    assert set(rows["synthetic"]["classifiers"]["mlp"]["groups"]["records"]) == {"x", "y", "z"}
    assert made["release"]["method"] == "dp-merf" and made["data"]["test_records"] == 150
    assert made["seconds"]["utility"] >= 0 and "fidelity" not in made


def test_nothing_is_written_inside_the_release(places, quick):
    release, data = places
    before, beside = prints(release), set(release.parent.iterdir())
    quick(out=None)
    assert prints(release) == before
    made = set(release.parent.iterdir()) - beside
    assert made == {release.parent / "release-evaluation"}
    assert prints(made.pop()).keys() == {"evaluation.json", "report.html"}


@pytest.mark.parametrize("inside", ["", "images", "new/deep"])
def test_a_place_inside_the_release_is_refused(places, quick, inside):
    with pytest.raises(InputError, match="within the release"):
        quick(out=places[0] / inside)
    assert not counts_path().exists()


def test_a_link_into_the_release_is_refused(places, tmp_path):
    (tmp_path / "link").symlink_to(places[0])
    with pytest.raises(InputError, match="within the release"):
        check_place(places[0], tmp_path / "link" / "x")
    with pytest.raises(InputError, match="within the release"):
        check_place(tmp_path / "link", places[0])


def test_the_report_of_private_data_says_so_and_is_readable_by_its_owner_alone(quick, tmp_path):
    first, second = quick(), quick()
    assert first.touches_private and (first.accesses, second.accesses) == (1, 2)
    words = " ".join(second.sections["touched"])
    assert "do not publish" in words and "2 times" in words and "overstates" in words
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out" / "evaluation.json").stat().st_mode) == 0o600


def test_public_data_are_free(tmp_path):
    api.synthesize(DPMERF(features=20, steps=2), "digits", Budget(epsilon=5), count=60, out=tmp_path / "release")
    made = evaluate(
        tmp_path / "release",
        "digits",
        test="digits",
        classifiers=["logreg"],
        metrics=["utility"],
        seeds=1,
        schedules={"logreg": Schedule(steps=2, batch=8)},
        device="cpu",
    )
    assert not made.touches_private and made.accesses == 0 and not counts_path().exists()
    assert "nothing private" in made.sections["touched"][0]
    assert "1797 test images are training images too" in made.sections["data"]["warnings"][0]


def _check(value, schema, where="$"):
    """The documented table, one level at a time."""
    for key, kind in schema.items():
        assert key in value, f"{where}.{key}"
        if isinstance(kind, dict):
            _check(value[key], kind, f"{where}.{key}")
        else:
            assert isinstance(value[key], kind), f"{where}.{key} is {type(value[key]).__name__}"


MEASURED = {"name": str, "mean": float, "low": float, "high": float, "values": list, "note": str}
ROW = {
    "accuracy": MEASURED,
    "fixed": MEASURED,
    "paper": MEASURED,
    "test_error": float,
    "looks": list,
    "margin": MEASURED,
    "balanced": MEASURED,
    "auroc": MEASURED,
    "per_class": {"0": MEASURED},
    "confusion": list,
    "calibration": MEASURED,
    "groups": type(None),
}
TRAINED = {
    "protocol": str,
    "protocol_means": str,
    "trained_on": int,
    "tested_on": int,
    "seeds": int,
    "baseline": {"class": str, "accuracy": float, "guessing": float},
    "classifiers": {"cnn": ROW},
    "max": MEASURED,
    "mean": MEASURED,
}
SCHEMA = {
    "format": str,
    "touches_private": bool,
    "accesses": int,
    "command": str,
    "sections": {
        "software": str,
        "touched": list,
        "seconds": {"utility": float, "fidelity": float, "attacks": float},
        "headline": {
            "classifier": str,
            "accuracy": MEASURED,
            "test_error": float,
            "baseline": dict,
            "margin": MEASURED,
            "balanced": MEASURED,
            "auroc": MEASURED,
            "recall": {"0": float},
            "real": float,
            "real_classifier": str,
            "images": int,
            "distinct": int,
            "verdict": str,
        },
        "left_out": list,
        "settings": {
            "effort": str,
            "protocol": str,
            "classifiers": list,
            "metrics": list,
            "seeds": int,
            "device": str,
            "reference": bool,
        },
        "release": {"method": str, "guarantee": dict, "images": int, "distinct": int, "shape": list, "classes": list},
        "data": {
            "train": str,
            "train_records": int,
            "test": str,
            "test_records": int,
            "public": bool,
            "accesses": int,
            "shared": int,
            "test_persons": type(None),
            "warnings": list,
        },
        "utility": {
            "synthetic": TRAINED,
            "real": TRAINED,
            "reference": type(None),
            "gap_to_real": {"cnn": MEASURED},
            "gap_to_reference": type(None),
        },
        "fidelity": {"against": str, "features": list, "values": {"inception-score": MEASURED}},
        "attacks": {"attacks": {"full-black-box": dict}, "verdict": str},
    },
}


def test_everything_follows_the_documented_schema(quick, tmp_path):
    quick(metrics=None, classifiers=["cnn"], attacks=["full-black-box"], command="sfumato evaluate release")
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    _check(found, SCHEMA)
    documented = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    for key in (
        *SCHEMA,
        *SCHEMA["sections"],
        *ROW,
        *TRAINED,
        *MEASURED,
        *SCHEMA["sections"]["data"],
        *SCHEMA["sections"]["headline"],
    ):
        assert f"`{key}`" in documented, key


def test_what_is_asked_wrongly_is_refused_before_anything_is_read(quick):
    for wrong, word in (
        ({"metrics": ["beauty"]}, "--metrics"),
        ({"protocol": "best"}, "--protocol"),
        ({"seeds": 0}, "--seeds"),
        ({"classifiers": ["svm"]}, "--classifiers"),
    ):
        with pytest.raises(InputError, match=word):
            quick(**wrong)
    assert not counts_path().exists()


def test_a_quick_look_says_what_it_leaves_out(quick):
    made = quick(classifiers=None, metrics=None, seeds=None, effort="quick").to_json()["sections"]
    assert made["settings"]["effort"] == "quick" and set(made["utility"]["synthetic"]["classifiers"]) == {
        "cnn",
        "logreg",
    }
    assert "fidelity" not in made and "attacks" not in made and made["utility"]["synthetic"]["looks"] == 1
    assert "not measured: fidelity, attacks" in made["left_out"] and "--full" in made["left_out"][-1]


def test_what_is_named_is_done_whatever_the_effort(quick):
    made = quick(metrics=None, effort="quick", attacks=["full-black-box"]).to_json()["sections"]
    assert list(made["attacks"]["attacks"]) == ["full-black-box"] and made["attacks"]["samples"] == 120
    assert made["settings"]["classifiers"] == ["mlp"] and made["settings"]["seeds"] == 2
    with pytest.raises(InputError, match="quick, default, full"):
        quick(effort="thorough")


def test_persons_widen_the_intervals_and_those_in_both_parts_are_found(places, tmp_path):
    images, labels = bars(120, 5)
    who = np.array([f"p{i // 6}" for i in range(120)])
    with load((images[:60], labels[:60], who[:60])) as train, load((images[54:], labels[54:], who[54:])) as test:
        made = evaluate(
            places[0],
            train,
            test=test,
            classifiers=["mlp"],
            metrics=["utility"],
            seeds=1,
            schedules=QUICK,
            device="cpu",
            out=tmp_path / "out",
        ).to_json()["sections"]
    assert made["data"]["test_persons"] == 11
    assert any("1 persons of the test images" in words for words in made["data"]["warnings"])


def test_progress_is_shown(quick):
    shown = Recorder()
    quick(progress=shown)
    assert [line[1] for line in shown.lines if line[0] == "start"] == ["reading images"] * 2 + ["mlp"] * 2


def test_the_reference_learns_the_rough_look_of_the_classes():
    pixels, labels = bars(300, 0)
    made, marks = reference(
        pixels[:, None],
        labels,
        classes=4,
        count=90,
        seed=0,
        training=Training(steps=120, batch=32, width=8, latent=4, rate=3e-3),
    )
    assert made.shape == (90, 1, 8, 8) and made.dtype == np.uint8
    assert np.bincount(marks, minlength=4).tolist() == [30, 30, 30, 0]  # no images of a class that is not there
    rows = [[made[marks == at, 0, 2 * b : 2 * b + 2].mean() for b in range(3)] for at in range(3)]
    assert [int(np.argmax(row)) for row in rows] == [0, 1, 2]


def test_a_published_accuracy_is_charged_and_near_the_truth(places, tmp_path):
    release, data = places
    before = prints(release)
    made = publish_accuracy(release, data, 50.0, tmp_path / "accuracy", schedule=QUICK["cnn"], device="cpu")
    plain = evaluate(
        release,
        data,
        classifiers=["cnn"],
        metrics=["utility"],
        seeds=1,
        schedules=QUICK,
        device="cpu",
        out=tmp_path / "out",
    )
    exact = plain.sections["utility"]["synthetic"]["classifiers"]["cnn"]["fixed"].mean
    assert abs(made["accuracy"] - exact) < 6 * made["sigma"] / (150 * 2**0.5) + 1e-9
    assert prints(release) == before
    assert prints(tmp_path / "accuracy").keys() == {"accuracy.json", "privacy.json", "PRIVACY.md"}
    with Ledger(default_path()) as ledger:
        shown = ledger.show(data, None)
    assert shown["spent"] == pytest.approx(50.0, rel=0.02) and shown["history"][0]["method"] == "publish-accuracy"
    assert shown["history"][0]["status"] == "committed" and not list(runs_folder().iterdir())
    written = json.loads((tmp_path / "accuracy" / "accuracy.json").read_text())
    assert written["counts"]["right"] == int(written["counts"]["right"]) and "out" not in written
    statement = json.loads((tmp_path / "accuracy" / "privacy.json").read_text())
    assert statement["guarantee"]["epsilon"] <= 50 and str(tmp_path) not in json.dumps([written, statement])


def test_a_spent_budget_refuses_a_second_accuracy(places, tmp_path):
    release, data = places
    publish_accuracy(release, data, 1.0, tmp_path / "one", schedule=QUICK["cnn"], device="cpu")
    with pytest.raises(OverBudget):
        publish_accuracy(release, data, 1.0, tmp_path / "two", schedule=QUICK["cnn"], device="cpu")
    assert not (tmp_path / "two").exists() and not list(runs_folder().iterdir())


def test_a_vote_moves_the_counts_by_one():
    assert VOTE.sensitivity(Relation.ADD_REMOVE) == 1 and VOTE.integer


def test_an_accuracy_inside_the_release_is_refused(places):
    with pytest.raises(InputError, match="within the release"):
        publish_accuracy(*places, 1.0, places[0] / "accuracy")


@pytest.fixture
def command(monkeypatch):
    """The command line, with short schedules."""
    from sfumato.cli import run

    monkeypatch.setattr(api, "evaluate", lambda *a, **k: evaluate(*a, **k, schedules=QUICK), raising=False)
    monkeypatch.setattr(
        api, "publish_accuracy", lambda *a, **k: publish_accuracy(*a, **k, schedule=QUICK["cnn"]), raising=False
    )
    return lambda *argv: run(["evaluate", *argv])


def test_the_command(places, command, tmp_path, capsys):
    release, data = places
    asked = (
        str(release),
        "--data",
        data,
        "--classifiers",
        "mlp",
        "--metrics",
        "utility",
        "--seeds",
        "2",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    )
    assert command(*asked) == 0
    shown = capsys.readouterr().out
    assert "mlp" in shown and "selection on the test set" in shown and "touched private images" in shown
    assert "always answering '0'" in " ".join(shown.split()) and "AUROC" in shown and "are distinct" in shown
    assert command(*asked, "--quick", "--full") == 2
    assert "--quick and --full contradict" in capsys.readouterr().err
    assert command(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accesses"] == 2 and found["out"] == str(tmp_path / "out")
    words = shlex.split(found["command"])
    assert words[:3] == ["sfumato", "evaluate", str(release)] and sorted(words[3:]) == sorted(asked[1:])


def test_the_command_publishes_one_number_alone(places, command, tmp_path, capsys):
    release, data = places
    asked = (str(release), "--data", data, "--publish-accuracy", "2", "--device", "cpu", "--out", str(tmp_path / "acc"))
    assert command(*asked, "--seeds", "5") == 2
    assert "takes no --seeds" in capsys.readouterr().err
    assert command(*asked) == 0
    assert "accuracy" in capsys.readouterr().out and (tmp_path / "acc" / "accuracy.json").is_file()
    assert command(str(release), "--data", data, "--delta", "1e-6") == 2
    assert "--publish-accuracy" in capsys.readouterr().err


def test_a_release_is_still_a_release_afterwards(places):
    assert len(Release.load(places[0]).images) == 120


def test_a_person_votes_once(places, tmp_path):
    images, labels = bars(60, 2)
    with load((images, labels, np.repeat([f"p{i}" for i in range(12)], 5))) as box:
        made = publish_accuracy(places[0], None, 80.0, tmp_path / "one", test=box, schedule=QUICK["cnn"], device="cpu")
    assert made["unit"] == "person" and made["test_units"] == 12
    assert abs(sum(made["counts"].values()) - 12) < 12 * made["sigma"] + 1e-9  # 60 votes would be far off
    assert made["sigma"] < 1
