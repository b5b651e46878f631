from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sfumato.release.gate import POINTS, Gate, Public, check
from sfumato.release.pictures import png


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "release")


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt", "images/0/000000.jpg", "images/000000.png", "images/../000000.png", "../privacy.json", "model.pt",
        "/etc/passwd", "images/.hidden/000000.png", "images/0/a.png", "checkpoint.safetensors ", "losses.json",
        "generator/../report.html", "images/0/000000.png\n", "images/a\\b/000000.png", "PRIVACY.MD",
    ],
)  # fmt: skip
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
            gate.json("generator/config.json", {"generator": {"parts": [{key: 1}]}})


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
        "generator/model.safetensors", "privacy.json", "report.html", "run.log",
    ]  # fmt: skip
    assert "without a certificate" in found[0] and "'seconds'" in found[1] and "link" in found[2]
