from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sfumato import Budget, DataSpec, Relation
from sfumato.data.images import png
from sfumato.data.labels import LabelPrior
from sfumato.flow.publish import Accuracy, write
from sfumato.methods import find, names
from sfumato.networks import KINDS, kind_of
from sfumato.release.files.gate import POINTS, Gate, Public, check, json_text, problem
from sfumato.release.files.schema import CARD, RECORD, listed
from tests.release.files.test_fakes import fake_release, fake_statement


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "release")


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "images/0/000000.jpg",
        "images/000000.png",
        "images/../000000.png",
        "../privacy.json",
        "model.pt",
        "/etc/passwd",
        "images/.hidden/000000.png",
        "images/0/a.png",
        "checkpoint.safetensors ",
        "losses.json",
        "generator/../report.html",
        "images/0/000000.png\n",
        "images/a\\b/000000.png",
        "PRIVACY.MD",
    ],
)
def test_unknown_names_are_refused(gate: Gate, name: str) -> None:
    with pytest.raises(ValueError, match="not on the list"):
        gate.write(name, png(np.zeros((1, 2, 2), np.uint8)))
    assert not gate.folder.exists()


def test_listed_files_are_written_once(gate: Gate) -> None:
    gate.write("PRIVACY.md", "words")
    gate.write("images/T-shirt_top/000001.png", png(np.zeros((3, 2, 2), np.uint8)))
    assert (gate.folder / "PRIVACY.md").read_text() == "words"
    assert check(gate.folder) == []
    with pytest.raises(FileExistsError):
        gate.write("PRIVACY.md", "other words")


def test_bare_tensors_are_refused(gate: Gate) -> None:
    with pytest.raises(TypeError, match="wrapped in Public, found a bare Tensor"):
        gate.tensors("generator/model.safetensors", {"weight": torch.zeros(2)})
    with pytest.raises(TypeError, match=r"Gate\.tensors"):
        gate.write("generator/model.safetensors", b"anything")
    with pytest.raises(TypeError, match="bytes or text"):
        gate.write("PRIVACY.md", torch.zeros(2))
    assert not gate.folder.exists()


def test_tensors_only_under_listed_names(gate: Gate) -> None:
    with pytest.raises(ValueError, match="not on the list"):
        gate.tensors("teachers.safetensors", {"weight": Public(torch.zeros(2), "data-independent")})


@pytest.mark.parametrize("why", ["", "trust me", "post-processing", "post-processing of crossing ", None, 3])
def test_a_certificate_needs_a_reason(why: object) -> None:
    with pytest.raises(ValueError, match="Expected why="):
        Public(1, why)


def test_certificate_reasons() -> None:
    assert Public.after(1, "embedding").why == "post-processing of crossing embedding"
    assert Public.after(1).why == "data-independent"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(gate: Gate, number: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        gate.json("privacy.json", {"guarantee": {"curve": [[1e-5, number]]}})
    with pytest.raises(ValueError, match="not strict JSON"):
        gate.write("privacy.json", json.dumps({"guarantee": number}))
    assert not gate.folder.exists()


def test_foreign_keys_are_refused(gate: Gate) -> None:
    with pytest.raises(ValueError, match="'losses', which is not on the list"):
        gate.json("privacy.json", {"losses": [1.0]})
    with pytest.raises(ValueError, match="'kind', which is not on the list"):
        gate.json("generator/config.json", {"kind": "conv"})
    for key in ("path", "device", "seconds", "chunk_size", "losses", "Device"):
        with pytest.raises(ValueError, match="never exported"):
            gate.json("privacy.json", {"declared_public": {"settings": {key: 1}}})  # where keys are free


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("guarantee",), "has the key 'guarantee.true_count', which is not on the list"),
        (("mechanisms", "events", 0), r"has the key 'mechanisms.events\[0\].true_count'"),
        (("mechanisms", "accounted", 0), r"'mechanisms.accounted\[0\].true_count'"),
        (("other_releases", "runs", 0), r"'other_releases.runs\[0\].true_count'"),
        (("reproducibility", "configuration", "data"), "'reproducibility.configuration.data.true_count'"),
        (("audit",), "'audit.true_count'"),
        (("measurement", "tensors", "embedding"), "'measurement.tensors.embedding.true_count'"),
    ],
)
def test_a_private_number_under_a_nested_key_is_refused(gate: Gate, place: tuple[str | int, ...], words: str) -> None:
    statement = json.loads(json.dumps(fake_release()._public_statement("sfumato x")))
    assert problem("privacy.json", json.dumps(statement).encode()) is None
    part = statement
    for step in place:
        part = part[step]
    part["true_count"] = 59_993
    with pytest.raises(ValueError, match=words):
        gate.json("privacy.json", statement)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"guarantee": 3.2}, "has 'guarantee' as a number and not as an object"),
        ({"guarantee": {"unit": 59_993}}, "'guarantee.unit' as a number and not as text"),
        ({"guarantee": {"mu": [1.0, 2.0]}}, "'guarantee.mu' as a list and not as a number or nothing"),
        ({"guarantee": {"curve": [[1e-5, "loss 3"]]}}, r"'guarantee.curve\[0\]\[1\]' as text"),
        ({"coverage": {"released": ["images", 59_993]}}, r"'coverage.released\[1\]' as a number and not as text"),
        ({"declared_public": {"settings": {"steps": [0.1, 0.2]}}}, "'declared_public.settings.steps' as a list"),
        ({"declared_public": {"settings": {"steps": {"n": 3}}}}, "'declared_public.settings.steps' as an object"),
        ({"declared_public": {"settings": {"steps": "x" * 300}}}, "of more than 200 letters"),
        ({"declared_public": {"settings": {"a b": 3}}}, "'declared_public.settings.a b', which is not a name"),
        ({"deviations": {"warnings": [["deep"]]}}, r"'deviations.warnings\[0\]' as a list"),
        ({"guarantee": {"epsilon": True}}, "'guarantee.epsilon' as yes or no and not as a number"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_place(gate: Gate, change: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gate.json("privacy.json", change)


def test_the_other_documents_are_lists_of_keys_too(gate: Gate) -> None:
    for name, value, words in (
        ("generator/config.json", {"generator": {"kind": "conv", "loss": 3.1}}, "'generator.loss'"),
        ("strip.json", {"moments": [{"step": 1, "epsilon": 0.1, "norm": 2.0}]}, r"'moments\[0\].norm'"),
        ("hashes.json", {"files": {"a.png": {"sha256": "0", "size": 1, "of": "x"}}}, "'files.a.png.of'"),
        ("hashes.json", {"files": {"a.png": 3}}, "'files.a.png' as a number and not as an object"),
    ):
        with pytest.raises(ValueError, match=words):
            gate.json(name, value)


@pytest.mark.parametrize("name", names())
def test_the_statement_of_every_method_is_on_the_list(name) -> None:
    method = find(name)(labels=LabelPrior("private", fraction=0.3))
    for budget in (Budget(4.0), Budget(4.0, relation=Relation.REPLACE_ONE)):
        try:
            plan = method.plan(DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789")), budget)
        except ValueError:  # a relation that the method does not serve
            continue
        statement = fake_statement(plan.to_json(), audit={"levels": [0], "verdict": "pass", "records": "made up"})
        assert problem("privacy.json", json_text(statement).encode()) is None


def test_there_are_twelve_points() -> None:
    assert len(POINTS) == len(set(POINTS)) == 12


def test_check_lists_what_is_outside(gate: Gate) -> None:
    gate.write("README.md", "card")
    (gate.folder / "run.log").write_text("loss 3.2")
    (gate.folder / "generator").mkdir()
    save_file({"weight": torch.zeros(2)}, gate.folder / "generator" / "model.safetensors")
    (gate.folder / "privacy.json").write_text('{"seconds": 3}')
    (gate.folder / "report.html").symlink_to("/etc/hostname")
    found = check(gate.folder)
    assert [line.split()[0] for line in found] == [
        "generator/model.safetensors",
        "privacy.json",
        "report.html",
        "run.log",
    ]
    assert "without a certificate" in found[0] and "'seconds'" in found[1] and "link" in found[2]


@pytest.mark.parametrize("kind", KINDS)
def test_the_configuration_of_every_generator_is_on_the_list(kind: str) -> None:
    inner = kind_of("conv")(shape=(1, 8, 8), classes=("a", "b"))
    known = {"fixed": {"each": 2}, "labelled": {"generators": [inner]}}.get(kind, {})
    config = kind_of(kind)(shape=(1, 8, 8), classes=("a", "b"), **known).config()
    written = json_text({"format": "sfumato-generator/1", "generator": config}).encode()
    assert problem("generator/config.json", written) is None


@pytest.mark.parametrize(("name", "schema"), [("deployment.yaml", RECORD), ("README.md", CARD)])
def test_the_card_and_the_record_have_fixed_keys(name: str, schema: dict) -> None:
    with pytest.raises(ValueError, match=f"refused {name}: it has the key 'true_count'"):
        listed(name, {"true_count": 59_993}, schema)


def test_a_published_accuracy_goes_through_a_gate_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"refused accuracy.json: it has the key 'counts.true_right'"):
        facts = {"accuracy": 0.9, "counts": {"right": 9.0, "true_right": 8}}
        write(tmp_path / "accuracy", Accuracy(facts, fake_statement()))
    assert not list(tmp_path.iterdir())
