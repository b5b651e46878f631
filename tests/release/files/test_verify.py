"""`verify` accepts a fresh release, and refuses it after any change."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

from sfumato import DPMERF, Budget, api
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event, Selected
from sfumato.api import make_method
from sfumato.cli import app, run
from sfumato.data.images import png
from sfumato.data.labels import LabelPrior
from sfumato.errors import InputError
from sfumato.release import Release, make_key, verify
from sfumato.release.documents.pictures import decode_one
from sfumato.release.files.command import OPTIONS, command_problems
from sfumato.release.files.gate import json_text
from sfumato.release.files.hashes import make_hashes
from sfumato.release.statement.statement import configuration_hash, make_statement
from sfumato.types import DataSpec

CHECKS = ("contents", "hashes", "signature", "guarantee", "statement", "command", "documents", "generator", "images")
COMMAND = "sfumato synthesize /home/ann/digits --method dp-merf --epsilon 2 --set features=10 --set steps=1"


@pytest.fixture(scope="module")
def made() -> Release:
    """A small real release of a public set."""
    return api.synthesize(DPMERF(features=10, steps=1), "digits", Budget(epsilon=2), count=6)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    return path, make_key(path)


@pytest.fixture(scope="module", params=["png", "parquet"])
def signed(request, made: Release, key: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    command = f"{COMMAND} --out /home/ann/out"
    place = tmp_path_factory.mktemp("signed") / "release"
    return made.save(place, request.param, command=command, key=key[0], signer="Ann")


@pytest.fixture
def fresh(made: Release, tmp_path: Path) -> Path:
    return made.save(tmp_path / "fresh")


def refused(folder: Path, **options: Any) -> dict[str, str]:
    """The checks that failed, with what they found."""
    found = verify(folder, **options)
    assert found.ok == all(ok for _, ok, _ in found.rows) and tuple(row[0] for row in found.rows) == CHECKS
    return {name: detail for name, ok, detail in found.rows if not ok}


def test_a_fresh_release_is_accepted(fresh: Path) -> None:
    assert refused(fresh) == {}
    found = verify(fresh).to_json()
    assert found["ok"] and found["signed_by"] is None and len(found["root"]) == 64
    assert "Not signed" in found["checks"][2]["detail"] and "epsilon = 2" in found["checks"][3]["detail"]


def test_a_signed_release_is_accepted(signed: Path, key: tuple[Path, str]) -> None:
    assert refused(signed) == {} == refused(signed, public_key=key[1])
    assert verify(signed).signed_by == key[1] and "'Ann'" in verify(signed).rows[2][2]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--person who", "asks for the unit person, and the statement is for record"),
        ("--unit person", "asks for the unit person"),
        ("--relation replace-one", "asks for the relation replace-one"),
        ("--delta 1e-4", "asks for delta 0.0001"),
        ("--private-count --records 99", "asks for a private count True"),
        ("--labels private:0.5", "asks for labels private"),
        ("--labels weights.csv", "asks for labels declared"),
        ("--public tiny.npz --provenance x", "asks for public data True"),
        ("--size 28", r"asks for images of side [28, 28]"),
        ("--set bandwidth=3", "sets bandwidth to 3.0"),
        ("--weaker", "has --weaker, which `sfumato synthesize` does not take"),
        ("--set steps=2", "sets steps twice"),
        ("--epsilon 3", "gives --epsilon twice"),
        ("'open", "open quote"),
    ],
)
def test_a_command_that_asks_for_else_is_refused(made: Release, tmp_path: Path, more: str, words: str) -> None:
    found = refused(made.save(tmp_path / "release", command=f"{COMMAND} {more}"))
    assert list(found) == ["command"] and words in found["command"], found


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("--epsilon 2", "--epsilon 4", "asks for epsilon 4, and the statement is for 2"),
        ("--epsilon 2", "--epsilon 1", "asks for epsilon 1, and the statement is for 2"),
        ("--epsilon 2", "", "names no epsilon"),
        ("--set steps=1", "", "sets steps to"),
        ("dp-merf", "datalens", "asks for the method datalens"),
        ("synthesize", "sample", "is not one of synthesize, train-classifier, refit"),
    ],
)
def test_a_changed_command_is_refused(made: Release, tmp_path: Path, old: str, new: str, words: str) -> None:
    found = refused(made.save(tmp_path / "release", command=COMMAND.replace(old, new)))
    assert list(found) == ["command"] and words in found["command"], found


def test_a_run_per_person_prints_its_column_and_is_refused_without_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "set.npz",
        images=rng.integers(0, 256, (60, 8, 8), np.uint8),
        labels=np.arange(60) % 2,
        who=np.arange(60) // 3,
    )
    argv = [
        "synthesize",
        str(tmp_path / "set.npz"),
        "--person",
        "who",
        "--method",
        "dp-merf",
        "--set",
        "features=10",
        "--set",
        "steps=1",
        "--epsilon",
        "2",
        "--count",
        "4",
        "--out",
        str(tmp_path / "release"),
    ]
    assert run(argv) == 0 and refused(tmp_path / "release") == {}
    release = Release.load(tmp_path / "release")
    command = release.statement["reproducibility"]["command"]
    assert " --person who" in command and "--person who" in (tmp_path / "release" / "report.html").read_text()
    forged = release.save(tmp_path / "forged", command=command.replace(" --person who", ""))
    assert "asks for the unit record, and the statement is for person" in refused(forged)["command"]


def test_a_plan_that_spends_less_than_was_asked_is_planned_again() -> None:
    """Queries come in whole numbers: the stated epsilon lies below the one that was asked for."""
    spec = DataSpec("digits", 1797, (1, 8, 8), tuple("0123456789"), public=True)
    method = make_method("datalens", {"topk": "10", "sigma": "300", "teachers": "40"})
    plan = method.plan(spec, Budget(5.0))
    assert plan.epsilon() < 4.995
    statement = make_statement(
        plan.to_json(),
        released=["x"],
        account=None,
        noise={"source": "s", "sampler": "t"},
        public_data=None,
        tuning="not charged",
        audit=None,
        version="0",
    )
    line = "sfumato synthesize digits --method datalens --set topk=10 --set sigma=300 --set teachers=40 --epsilon"
    statement["reproducibility"]["command"] = f"{line} 5"
    assert command_problems(statement) == []
    statement["reproducibility"]["command"] = f"{line} 10"
    assert "asks for epsilon 10" in command_problems(statement)[0]


@pytest.mark.parametrize("verb", OPTIONS)
def test_the_options_of_a_command_are_those_of_the_command_line(verb: str) -> None:
    params = {parameter.name for parameter in typer.main.get_command(app).commands[verb].params}
    others = {
        *("data", "release", "json", "help", "resume", "unsound", "public_test", "public_test_split"),
        *("config", "quiet", "verbose", "yes", "force"),
    }
    others |= {"recipe"} if verb == "train-classifier" else set()  # not part of what it prints
    assert params - others == OPTIONS[verb]


def test_two_crossings_of_two_kinds_are_accepted(tmp_path: Path) -> None:
    method = DPMERF(features=10, steps=1, labels=LabelPrior("private", None, 0.5))
    api.synthesize(method, "digits", Budget(epsilon=2), count=6, out=tmp_path / "release")
    assert refused(tmp_path / "release") == {}
    statement = json.loads((tmp_path / "release" / "privacy.json").read_text())
    assert [event["mechanism"] for event in statement["mechanisms"]["accounted"]] == ["gaussian", "discrete-gaussian"]
    assert statement["guarantee"]["mu"] is None and 0 < statement["guarantee"]["advantage"] < 0.4


def test_no_local_path_is_in_the_command(signed: Path) -> None:
    command = json.loads((signed / "privacy.json").read_text())["reproducibility"]["command"]
    assert command == f"{COMMAND.replace('/home/ann/', '')} --out out"
    assert "sfumato synthesize digits" in (signed / "report.html").read_text()


def test_another_key_is_refused(signed: Path, fresh: Path, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other.pem")
    assert set(refused(signed, public_key=other)) == {"signature"}
    assert set(refused(fresh, public_key=other)) == {"signature"}


def test_the_report_says_who_signed_and_cannot_say_otherwise(signed: Path, tmp_path: Path) -> None:
    page = (signed / "report.html").read_text()
    assert "By Ann, with the key" in page
    shutil.copytree(signed, tmp_path / "copy")
    (tmp_path / "copy" / "report.html").write_text(page.replace("By Ann,", "By Bob,"))
    found = {row[0]: row[1] for row in verify(tmp_path / "copy").rows}
    assert not found["documents"] and not found["hashes"]


def test_a_release_saved_again_and_a_refit_are_accepted(signed: Path, tmp_path: Path) -> None:
    Release.load(signed).save(tmp_path / "again", "png")
    assert refused(tmp_path / "again") == {}
    api.refit(signed, tmp_path / "refit", count=6, settings={"steps": "2"})
    assert refused(tmp_path / "refit") == {}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _spoilt(data: bytes, chance: random.Random) -> list[bytes]:
    """The data with single bits and bytes changed here and there, something added, something lost."""
    places = {0, len(data) - 1, *(chance.randrange(len(data)) for _ in range(3))}
    flipped = [data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :] for at in sorted(places)]
    at = chance.randrange(len(data))
    other = data[:at] + bytes([(data[at] + chance.randrange(1, 256)) % 256]) + data[at + 1 :]
    return [*flipped, other, data + b"\n", data + b"\0", data[:-1], data[:at], b""]


def test_any_changed_byte_of_any_file_is_refused(signed: Path) -> None:
    chance = random.Random(7)
    assert len(_files(signed)) >= 10
    for path in _files(signed):
        data = path.read_bytes()
        for spoilt in _spoilt(data, chance):
            path.write_bytes(spoilt)
            assert not verify(signed).ok, (path.name, len(spoilt))
        path.write_bytes(data)
    assert verify(signed).ok


def test_every_byte_of_the_signature_counts(signed: Path) -> None:
    path = signed / "signature.json"
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        assert "signature" in refused(signed), at
    path.write_bytes(data)
    assert verify(signed).ok


def test_any_missing_file_is_refused(signed: Path) -> None:
    for path in _files(signed):
        data = path.read_bytes()
        path.unlink()
        assert not verify(signed).ok, path.name
        path.write_bytes(data)
    assert verify(signed).ok


@pytest.mark.parametrize(
    "name", ["notes.txt", ".hidden", "images/0/000099.png", "generator/model.pt", "losses.json", "images/0/notes.txt"]
)
def test_an_extra_file_is_refused(fresh: Path, name: str) -> None:
    shutil.copy(next((fresh / "images").rglob("*.png")), fresh / name)
    assert "hashes" in refused(fresh)


def test_links_and_pipes_are_refused_unread(fresh: Path, tmp_path: Path) -> None:
    for name in ("README.md", "privacy.json", "generator/config.json"):
        (fresh / name).rename(tmp_path / "kept")
        (fresh / name).symlink_to(tmp_path / "kept")
        assert f"{name} is not a plain file" in refused(fresh)["contents"]
        (fresh / name).unlink()
        os.mkfifo(fresh / name)
        assert f"{name} is not a plain file" in refused(fresh)["guarantee"]
        (fresh / name).unlink()
        (tmp_path / "kept").rename(fresh / name)
    (fresh / "more").symlink_to(tmp_path)
    assert len(refused(fresh)) == len(CHECKS)


def test_a_folder_that_says_something_is_refused(fresh: Path) -> None:
    (fresh / "images" / "secret of ann").mkdir()
    assert set(refused(fresh)) == {"contents"}


def _reseal(folder: Path) -> None:
    """What a forger does who knows how the hashes are made."""
    (folder / "hashes.json").unlink()
    (folder / "hashes.json").write_bytes(make_hashes(folder))


def _edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    statement = json.loads((folder / "privacy.json").read_text())
    change(statement)
    (folder / "privacy.json").write_text(json_text(statement))
    _reseal(folder)


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a smaller epsilon": (lambda s: s["guarantee"].update(epsilon=1.0), "guarantee"),
    "a slightly smaller epsilon": (
        lambda s: s["guarantee"].update(epsilon=s["guarantee"]["epsilon"] * 0.99999),
        "guarantee",
    ),
    "a larger epsilon": (lambda s: s["guarantee"].update(epsilon=2.1), "guarantee"),
    "another delta": (lambda s: s["guarantee"].update(delta=1e-6), "guarantee"),
    "the other relation": (lambda s: s["guarantee"].update(relation="replace-one"), "guarantee"),
    "a bent curve": (lambda s: s["guarantee"]["curve"].__setitem__(2, [1e-4, 0.1]), "guarantee"),
    "a made-up mu": (lambda s: s["guarantee"].update(mu=0.1), "guarantee"),
    "a smaller advantage": (lambda s: s["guarantee"].update(advantage=0.01), "guarantee"),
    "another second opinion": (lambda s: s["accountant"]["second_opinion"].update(epsilon=1.0), "guarantee"),
    "more noise than there was": (lambda s: s["mechanisms"]["accounted"][0].update(sigma=99.0), "guarantee"),
    "more noise shown": (lambda s: s["mechanisms"]["events"][0].update(sigma=99.0), "guarantee"),
    "an event left out": (lambda s: s["mechanisms"]["accounted"].pop(), "guarantee"),
    "no events": (lambda s: s["mechanisms"].pop("accounted"), "guarantee"),
    "a kinder sentence": (lambda s: s["plain_words"].update(summary="Nobody can tell anything."), "statement"),
    "a kinder number": (lambda s: s["plain_words"].update(attacker_success=0.5), "statement"),
    "other settings": (lambda s: s["reproducibility"]["configuration"]["settings"].update(steps=5), "statement"),
    "another hash": (lambda s: s["reproducibility"].update(configuration_hash="0" * 64), "statement"),
    "another unit": (lambda s: s["guarantee"].update(unit="person"), "statement"),
    "an accountant by another name": (lambda s: s["accountant"].update(name="trust me"), "statement"),
    "a paper without its warning": (lambda s: s["accountant"]["paper"].update(note="sound"), "statement"),
    "a tuning of one's own": (lambda s: s["tuning"].update(summary="we tried a few"), "statement"),
    "more coverage": (lambda s: s["coverage"].update(attacker="None."), "statement"),
    "an audit on another device": (lambda s: s["audit"].update(audited_on="cuda"), "statement"),
    "an audit in other words": (lambda s: s["audit"].update(summary="Audited by the best."), "statement"),
    "a key more": (lambda s: s["randomness"].update(more="words"), "statement"),
    "other classes": (lambda s: s["declared_public"]["classes"].reverse(), "generator"),
    "no measurement": (lambda s: s.update(measurement=None), "generator"),
    "a point that is none": (lambda s: s.update(guarantee=[]), "guarantee"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_statement_is_refused_although_its_hashes_fit(fresh: Path, name: str) -> None:
    change, check = FORGERIES[name]
    _edit(fresh, change)
    found = refused(fresh)
    # What is no longer a document of the listed keys and kinds is refused by the gate's list as well.
    unlisted = name in ("a key more", "a point that is none")
    assert check in found and "hashes" not in found and ("contents" in found) == unlisted, found


def test_a_setting_that_the_method_does_not_have_is_refused(fresh: Path) -> None:
    """Names of settings are free at the gate; those of a known method are its own."""

    def smuggle(statement: dict[str, Any]) -> None:
        statement["declared_public"]["settings"]["count"] = 1793
        made = statement["reproducibility"]
        made["configuration"]["settings"]["count"] = 1793
        plan = {**made["configuration"], "guarantee": made["configuration"]["budget"]}
        made["configuration_hash"] = configuration_hash(plan)

    _edit(fresh, smuggle)
    assert "The setting 'count' is not one of dp-merf." in refused(fresh)["statement"]


@pytest.mark.parametrize("name", ["PRIVACY.md", "README.md", "report.html", "deployment.yaml"])
def test_a_typed_document_is_refused_although_its_hash_fits(fresh: Path, name: str) -> None:
    path = fresh / name
    path.write_text(path.read_text().replace("50 %", "49 %") + ("" if "50 %" in path.read_text() else "\n"))
    _reseal(fresh)
    assert set(refused(fresh)) == {"documents"} and name in refused(fresh)["documents"]


def test_pictures_packed_otherwise_are_the_same_report(fresh: Path) -> None:
    text = (fresh / "report.html").read_text()
    packed = text.split("data:image/png;base64,")[1].split('"')[0]
    again = decode_one("x", base64.b64decode(packed))
    buffer = io.BytesIO()
    Image.fromarray(again[0]).save(buffer, "PNG", compress_level=9)
    other = base64.b64encode(buffer.getvalue()).decode()
    assert other != packed
    (fresh / "report.html").write_text(text.replace(packed, other))
    _reseal(fresh)
    assert refused(fresh) == {}
    dark = base64.b64encode(png(again // 2)).decode()
    (fresh / "report.html").write_text(text.replace(packed, dark))
    _reseal(fresh)
    assert set(refused(fresh)) == {"documents"}


def test_an_image_taken_away_is_refused_although_the_hashes_fit(fresh: Path) -> None:
    sorted((fresh / "images").rglob("*.png"))[0].unlink()
    _reseal(fresh)
    assert {"documents", "images"} <= set(refused(fresh))


def test_a_signature_cannot_be_taken_off_or_put_on(made: Release, key: tuple[Path, str], tmp_path: Path) -> None:
    one = made.save(tmp_path / "one", key=key[0])
    two = made.save(tmp_path / "two")
    shutil.copy(one / "signature.json", two / "signature.json")
    assert "signature" in refused(two)
    (one / "signature.json").unlink()
    assert "signature" in refused(one)


def test_a_tensor_from_nowhere_is_refused(made: Release, tmp_path: Path) -> None:
    from sfumato.release import Public

    odd = {"more": Public.after(made.measurement["embedding"].value, "teacher")}
    folder = Release(made.generator, made.images, made.statement, odd).save(tmp_path / "odd")
    assert "not an event of the statement" in refused(folder)["generator"]


def test_another_version_is_named(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh / "PRIVACY.md").write_text("words of another template")
    monkeypatch.setattr("sfumato.__version__", "9.9.9")
    assert "check it with that version" in refused(fresh)["documents"]


def test_what_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        verify(tmp_path / "nothing")
    assert not verify(tmp_path).ok and verify(tmp_path).root is None


def _plan_of(events: list[Event | Selected], delta: float = 1e-5) -> dict[str, Any]:
    """A plan as `Plan.to_json` gives it, for events that no method makes yet."""
    from sfumato.accounting.accountant import epsilon_by_renyi, profile

    found = profile(events)
    rows = [part for event in events for part in (event.events if isinstance(event, Selected) else [event])]
    return {
        "method": "dp-merf",
        "settings": {"steps": 3},
        "data": {
            "name": "scans",
            "records": 5000,
            "shape": [1, 8, 8],
            "classes": ["a", "b"],
            "unit": "record",
            "count_public": True,
            "public": False,
        },
        "guarantee": {
            "epsilon": found.epsilon(delta),
            "delta": delta,
            "relation": str(rows[0].relation),
            "unit": "record",
            "accountant": found.name,
            "mu": found.mu,
            "discretisation": getattr(found, "interval", None),
        },
        "curve": [[d, found.epsilon(d)] for d in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)],
        "crossings": [
            {
                "name": f"step {number}",
                "mechanism": row.mechanism,
                "sigma": row.sigma,
                "sensitivity": row.sensitivity,
                "multiplier": row.sigma / row.sensitivity,
                "bound": row.bound,
                "sampling": "no subsampling" if row.rate == 1 else f"Poisson({row.rate:g})",
                "times": row.times,
            }
            for number, row in enumerate(rows)
        ],
        "events": [event.to_json() for event in events],
        "second_opinion": {"accountant": "RDP (Balle et al.)", "epsilon": epsilon_by_renyi(events, delta)},
        "paper": {},
        "labels": {"kind": "uniform", "weights": None},
        "deviations": [],
        "warnings": ["careful"],
    }


def _event(mechanism: str = "gaussian", sigma: float = 1.0, relation: str = "add-remove", **more: Any) -> Event:
    return Event(mechanism, sigma, 1.0 if relation == "add-remove" else 2.0, 1.0, Relation(relation), **more)


LEDGERS = {
    "nothing random": [_event(sigma=4.0), _event(sigma=9.0, times=3)],
    "subsampled": [_event(sigma=1.0, rate=0.01, times=500)],
    "subsampled under replace-one": [_event(sigma=1.5, relation="replace-one", rate=0.02, times=50)],
    "discrete": [_event("discrete-gaussian", sigma=5.0), _event(sigma=5.0)],
    "selected": [Selected((_event(sigma=4.0),), 10.0, 1.0)],
    "no crossing at all": [],
}


@pytest.mark.parametrize("name", LEDGERS)
def test_statements_of_every_kind_of_event_re_derive(name: str) -> None:
    from sfumato.release.statement.rederive import number_problems, word_problems

    if not LEDGERS[name]:
        plan = _plan_of([_event(sigma=4.0)]) | {"crossings": [], "events": [], "curve": []}
        plan["guarantee"] |= {"epsilon": 0.0, "mu": 0.0}
        plan["second_opinion"] = None
    else:
        plan = _plan_of(LEDGERS[name])
    statement = make_statement(
        plan,
        released=["images"],
        account={"runs": [], "epsilon_total": None, "delta": 1e-5},
        noise={"source": "x", "sampler": "y"},
        public_data={"name": "faces", "provenance": "drawn"},
        tuning="Not charged: one run",
        audit={"level": 0, "passed": True},
        version="0.1.0",
    ) | {"measurement": None}
    statement = json.loads(json.dumps(statement))
    assert number_problems(statement) == []
    assert word_problems(statement) == []


def test_attacker_success_of_a_loss_distribution_is_its_own() -> None:
    """Delta at epsilon 0 is the total variation distance: far tighter than what a point of the curve gives."""
    from sfumato.accounting.accountant import profile
    from sfumato.release.statement.wording import advantage, plain_words

    events = LEDGERS["subsampled"]
    plan = _plan_of(events)
    accounted = profile(events).delta(0.0)
    loose = advantage(plan["guarantee"], plan["curve"])
    words = plain_words(plan["guarantee"] | {"advantage": accounted}, plan["curve"], plan["data"])
    assert accounted <= words["attacker_advantage"] <= accounted * 1.001 < loose
    assert "accountant's delta" in words["basis"]
    # A plain Gaussian, said in both ways, gives the same.
    gaussian = profile([_event(sigma=2.0)])
    exact = advantage({"epsilon": 1.0, "delta": 1e-5, "mu": gaussian.mu})
    assert exact == pytest.approx(gaussian.delta(0.0), rel=1e-9)
    assert advantage({"epsilon": 9.0, "delta": 1e-5, "advantage": exact}) == pytest.approx(exact)


def test_discretisation_is_put_into_words() -> None:
    from tests.release.files.test_fakes import fake_plan, fake_statement

    plan = fake_plan(guarantee={"mu": None, "accountant": "PLD", "discretisation": 1e-4})
    point = fake_statement(plan)["accountant"]
    assert point["discretisation"] == "privacy losses on a grid of 0.0001, rounded against us"
    assert fake_statement()["accountant"]["discretisation"] == "Does not apply: closed form."
