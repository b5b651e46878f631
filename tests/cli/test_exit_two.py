"""Exit status 2 means that nothing was spent: every wrong way to ask leaves the ledger as it was, byte for byte."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer

from sfumato import api
from sfumato.cli import VERBS
from sfumato.errors import InputError
from sfumato.evaluate.stacked import Schedule
from sfumato.flow.first_audit import passed
from sfumato.flow.publish import publish_accuracy
from sfumato.flow.rehearsal import Stage
from sfumato.ledger.reservation import Charge
from sfumato.methods import Method, find, names
from sfumato.privacy.barrier import Barrier
from tests.cli.test_cli import call
from tests.methods.test_contract import TINY

SMALL = ("--set", "features=20", "--set", "steps=2", "--set", "batch=4", "--set", "latent=4", "--set", "width=8")


@dataclass(frozen=True)
class Places:
    """A private set, a release of it, files that are wrong, and a ledger that grants the set something."""

    home: Path
    data: Path
    release: Path

    def __getattr__(self, name: str) -> Path:
        return self.home / name


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Places:
    home, random = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    images, labels = random.integers(0, 256, (2, 60, 8, 8), dtype=np.uint8), np.arange(60) % 3
    np.savez(
        home / "set.npz",
        train_images=images[0],
        train_labels=labels,
        test_images=images[1],
        test_labels=labels,
        train_who=np.arange(60) // 2,
        test_who=np.arange(60) // 2,
    )
    np.savez(home / "wide.npz", images=random.integers(0, 256, (30, 8, 12), dtype=np.uint8), labels=labels[:30])
    (home / "garbage").write_bytes(b"nothing of the kind" * 9)
    (home / "folder").mkdir()
    (home / "folder" / "file").write_text("in the way")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEDGER", "RUNS", "CACHE"):
            patch.setenv(f"SFUMATO_{name}", str(home / name.lower()))
        base = ("synthesize", home / "set.npz", "--method", "dp-merf", *SMALL, "--epsilon", "1", "--count", "6")
        status, _, err = call(*base, "--out", home / "release", "--json")
        assert status == 0, err
    for split in ("train", "test"):
        grant = ("budget", home / "set.npz", "--split", split, "--total", "9", "--ledger", home / "granted", "--json")
        assert call(*grant)[0] == 0
    return Places(home, home / "set.npz", home / "release")


@pytest.fixture
def places(made, tmp_path, monkeypatch) -> Places:
    """With a ledger that grants much, in a folder of its own; whatever ends with status 2 must leave it alone."""
    monkeypatch.chdir(tmp_path)
    short = Schedule(2, 8, 1e-3)
    publish = lambda *given, **more: publish_accuracy(*given, **more, schedule=short)  # noqa: E731
    monkeypatch.setattr(api, "publish_accuracy", publish, raising=False)
    shutil.copy(made.granted, os.environ["SFUMATO_LEDGER"])
    return made


def base(verb: str, places: Places) -> list[str]:
    """A command line that would spend, or at least succeed."""
    out, data, release = ["--out", "new", "--json"], str(places.data), str(places.release)
    budget = ["--epsilon", "1", "--device", "cpu"]
    known = {
        "synthesize": [data, "--method", "dp-merf", *SMALL, "--count", "3", *budget, *out],
        "train-classifier": [data, "--network", "linear", "--set", "steps=2", "--set", "batch=20", *budget, *out],
        "tune": [
            "dp-merf",
            "--private",
            "--data",
            data,
            "--runs",
            "1",
            "--count",
            "3",
            "--epsilon",
            "1",
            *out,
            *(word for text in SMALL[1::2] for word in ("--grid", text)),
        ],
        "evaluate": [release, "--data", data, "--publish-accuracy", "1", "--device", "cpu", *out],
        "budget": [data, "--total", "8", "--json"],
        "refit": [release, "--count", "3", *out],
        "sample": [release, "--count", "3", *out],
    }
    return [verb, *known[verb]]


SPENDING = ("synthesize", "train-classifier", "tune", "evaluate")
OTHERS = ("budget", "refit", "sample")


def state() -> tuple[bytes | None, list[str]]:
    """The ledger as bytes, or that there is none, and the folders of unfinished runs."""
    ledger, runs = Path(os.environ["SFUMATO_LEDGER"]), Path(os.environ["SFUMATO_RUNS"])
    return ledger.read_bytes() if ledger.exists() else None, os.listdir(runs) if runs.is_dir() else []


def nothing_spent(*argv: object, status: int = 2) -> str:
    """The sentence of a command that must fail, and must leave the ledger as it was."""
    before = state()
    found, _, err = call(*argv)
    assert found == status, (argv, found, err)
    assert state() == before, argv
    assert "Traceback" not in err
    return err


# Wrong values of options that take words; numbers are wrong as words, and switches with a value.
WRONG: dict[str, tuple[str, ...]] = {
    "data": ("/no/such", "{garbage}", "no-such-set", ""),
    "method": ("nope", ""),
    "recipe": ("nope",),
    "network": ("nope",),
    "by": ("nope",),
    "relation": ("swap",),
    "unit": ("planet", "person"),
    "split": ("nope",),
    "test_split": ("nope",),
    "label": ("nope",),
    "person": ("nope",),
    "labels": ("nowhere.csv", "private:2", "{garbage}"),
    "public": ("digits",),
    "provenance": ("somewhere",),
    "format": ("gif",),
    "set": ("luck=2", "steps", "steps=x", "steps=0"),
    "grid": ("luck=2", "steps", "features=20,40", "steps=x"),
    "law": ("murphy",),
    "shape": ("axb",),
    "device": ("abacus",),
    "ledger": ("{garbage}", "{folder}", "{garbage}/below"),
    "out": ("{folder}", "{garbage}", "{garbage}/below"),
    "sign": ("/no/such", "{garbage}"),
    "signer": ("nobody",),
    "license": ("no licence at all",),
    "title": ("",),
    "contact": ("",),
    "config": ("/no/such", "{garbage}", "{folder}"),
    "resume": ("nothing",),
    "test": ("/no/such", "{garbage}"),
    "public_test": ("/no/such", "{garbage}"),
    "release": ("/no/such", "{folder}"),
    "protocol": ("nope",),
    "classifiers": ("cnn",),
    "metrics": ("utility",),
    "features": ("nope",),
    "weights": ("nope",),
    "attacks": ("nope",),
    "groups": ("nope",),
}
# What is not wrong there, or does not count.
FREE = {
    ("tune", "shape"): "of made-up images alone",
    ("train-classifier", "public_test_split"): "goes with --public-test alone",
}


def options() -> Iterator[tuple[str, str, str, bool]]:
    """(verb, parameter, wrong value, positional) for every parameter of every verb that touches a ledger."""
    for function in VERBS:
        verb = function.__name__.replace("_", "-")
        if verb not in SPENDING + OTHERS:
            continue
        hints = typing.get_type_hints(function, include_extras=True)
        for name in inspect.signature(function).parameters:
            if hints[name] is typer.Context or (verb, name) in FREE:
                continue
            kind, *extras = typing.get_args(hints[name])
            positional = any(type(extra).__name__ == "ArgumentInfo" for extra in extras)
            words = {part for part in (kind, *typing.get_args(kind)) if part in (int, float, bool)}
            wrong = ("x",) if words else WRONG.get(name, ())
            assert wrong, f"{verb} has a new option '{name}'; say in WRONG what would be wrong for it"
            yield from ((verb, name, value, positional) for value in wrong)


def replaced(argv: list[str], verb: str, name: str, value: str, positional: bool) -> list[str]:
    """The command line with one wrong value in it."""
    if positional:
        return [argv[0], value, *argv[2:]]
    flag = "--" + name.replace("_", "-")
    return [*argv, f"{flag}={value}"]


@pytest.mark.parametrize(("verb", "name", "value", "positional"), list(options()))
def test_a_wrong_value_of_any_option_spends_nothing(places, verb, name, value, positional):
    value = value.format(garbage=places.garbage, folder=places.folder)
    nothing_spent(*replaced(base(verb, places), verb, name, value, positional))


def test_the_same_command_lines_without_the_fault_work(places):
    for verb in SPENDING + OTHERS:
        before = state()
        argv = [word if word != "new" else f"new-{verb}" for word in base(verb, places)]
        status, _, err = call(*argv)
        assert status == 0, (verb, err)
        assert (state() == before) == (verb in ("refit", "sample")), verb


@pytest.mark.parametrize(
    "words",
    [
        ("refit", "--set", "features=40"),
        ("train-classifier", "--test", "digits", "--test-split", "nope"),
        ("synthesize", "--person", "who"),
        ("train-classifier", "--person", "who"),
        ("tune", "--person", "who"),
        ("evaluate", "--person", "who"),
        ("synthesize", "--private-count"),
        ("synthesize", "--relation", "replace-one", "--private-count"),
        ("synthesize", "--delta", "0"),
        ("synthesize", "--epsilon", "0"),
        ("synthesize", "--microbatch", "0"),
        ("synthesize", "--count", "0"),
        ("synthesize", "--public", "{wide}", "--provenance", "made up", "--method", "dpaf"),
        ("train-classifier", "--by", "pate", "--public", "{wide}", "--provenance", "made up"),
    ],
)
def test_what_does_not_go_together_spends_nothing(places, words):
    verb, *more = (word.format(wide=places.home / "wide.npz") for word in words)
    nothing_spent(*base(verb, places), *more)


def settings() -> Iterator[tuple[str, str]]:
    for name in names():
        shared = {f.name for f in fields(Method)}
        free = {"prompt"}  # any words will do
        yield from ((name, f.name) for f in fields(find(name)) if f.name not in shared | free)


@pytest.mark.parametrize("method", names())
def test_a_wrong_setting_of_any_method_spends_nothing(places, method):
    start = ("synthesize", places.data, "--method", method, "--epsilon", "1", "--device", "cpu", "--out", "new")
    for name, field in settings():
        if name == method:
            nothing_spent(*start, "--set", f"{field}=nonsense")
    nothing_spent(*start, "--set", "nonsense=1")


def tiny(method: str, places: Places, **changes: Any) -> list[str]:
    """`synthesize` with the smallest settings of a method."""
    words = [f"{name}={value}" for name, value in (TINY[method] | changes).items()]
    return [
        "synthesize",
        str(places.data),
        "--method",
        method,
        "--epsilon",
        "1",
        "--count",
        "3",
        "--device",
        "cpu",
        "--out",
        "new",
        *(word for text in words for word in ("--set", text)),
    ]


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("dp-mepf", {"network": "efficientnet"}, "weights of efficientnet"),
        ("dp-mepf", {"network": "vgg16"}, "vgg16"),
        ("dpaf", {"conv1": "public"}, "--public"),
        ("dpaf", {"public_steps": "2"}, "--public"),
    ],
)
def test_weights_or_public_images_that_are_missing_spend_nothing(places, monkeypatch, method, changes, words):
    monkeypatch.delenv("SFUMATO_EFFICIENTNET", raising=False)
    assert words in nothing_spent(*tiny(method, places, **changes))


@pytest.mark.parametrize("changes", [{"conv1": "public"}, {"public_steps": "2"}])
def test_public_images_of_another_shape_spend_nothing(places, changes):
    more = ("--public", places.home / "wide.npz", "--provenance", "made up")
    assert "--size" in nothing_spent(*tiny("dpaf", places, **changes), *more)


@pytest.fixture
def unaudited(monkeypatch) -> None:
    """An audit would meet the same fault, and refuse with a status of its own."""
    monkeypatch.setattr("sfumato.flow.flow.audit_first", lambda *_: passed("cpu"))


def short_of_memory(*_: object) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB")


@pytest.mark.parametrize("method", names())
def test_too_little_memory_for_any_method_spends_nothing(places, unaudited, monkeypatch, method):
    monkeypatch.setattr(Barrier, "release", short_of_memory)
    assert "lower --microbatch" in nothing_spent(*tiny(method, places))


@pytest.mark.parametrize("verb", SPENDING)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (MemoryError(), "lower --microbatch"),
        (ImportError("No module named 'tiny'", name="tiny"), "package 'tiny'"),
        (OSError(28, "No space left", "/full/disk"), "/full/disk"),
        (RuntimeError("shapes do not match"), "made-up images"),
    ],
)
def test_whatever_a_rehearsal_meets_spends_nothing(places, unaudited, monkeypatch, verb, fault, words):
    def failed(*_: object) -> Any:
        raise fault

    monkeypatch.setattr(Stage, "release", failed)
    assert words in nothing_spent(*base(verb, places))


@pytest.mark.parametrize("verb", ["synthesize", "tune"])
def test_a_package_that_is_missing_for_the_files_spends_nothing(places, monkeypatch, verb):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "package 'pyarrow'" in nothing_spent(*base(verb, places), "--format", "parquet")


def test_a_full_disk_when_the_files_are_tried_spends_nothing(places, monkeypatch):
    def full(*_: object, **__: object) -> Any:
        raise OSError(28, "No space left on device", "/full/disk")

    monkeypatch.setattr("sfumato.flow.rehearsal.tempfile.TemporaryDirectory", full)
    for verb in SPENDING:
        assert "/full/disk" in nothing_spent(*base(verb, places))


def test_too_little_budget_spends_nothing_either(places):
    for verb in SPENDING:
        changes = {"--epsilon": "99", "--publish-accuracy": "99"}
        argv = base(verb, places)
        argv = [changes.get(argv[at - 1], word) for at, word in enumerate(argv)]
        nothing_spent(*argv, status=3)


def test_a_run_that_cannot_be_resumed_spends_nothing(places):
    for verb in ("synthesize", "train-classifier"):
        nothing_spent(verb, "--resume", "nothing")
        nothing_spent(verb, "--resume", places.folder)


def test_a_ledger_that_was_not_there_is_not_made(places, monkeypatch, tmp_path):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "none.sqlite"))
    monkeypatch.setattr("sfumato.flow.flow.audit_first", lambda *_: passed("cpu"))
    nothing_spent(*tiny("dpaf", places, conv1="public"))
    assert state()[0] is None


@pytest.mark.parametrize("verb", SPENDING)
@pytest.mark.parametrize("fault", [InputError("No."), MemoryError(), OSError(28, "No space left", "/full/disk")])
def test_what_fails_after_the_first_crossing_has_another_status(places, unaudited, monkeypatch, verb, fault):
    def failed(*_: object) -> Any:
        raise fault

    monkeypatch.setattr(Charge, "others", failed)  # asked for the statement, when all has crossed
    before = state()
    status, _, err = call(*base(verb, places))
    assert status == 6 and "stays spent" in err and state() != before, (status, err)
    assert ("--resume" in err) == (verb in ("synthesize", "train-classifier"))


def test_the_budget_shows_what_was_given_back_and_does_not_count_it(places, unaudited, monkeypatch):
    def failed(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.flow.flow.barrier_before", failed)
    status, _, err = call(*base("synthesize", places))
    assert status == 130 and "given back" in err
    status, out, _ = call("budget", places.data)
    assert status == 0 and "epsilon 0 by 0 runs" in out and "returned" in out
    assert state()[1] == []
