"""A request and the line that is printed for it: one is the other, and nothing that was asked is left out."""

from __future__ import annotations

import shlex
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.cli import run
from sfumato.errors import InputError
from sfumato.flow import request as requests
from sfumato.flow.request import UNTOLD, Request
from sfumato.recipes import RECIPES

BASE = Request(data="scans", method="dp-merf", epsilon=1.0)
# One value that is not the default for every field that a line tells.
OTHER = {
    "data": "celeba-hair:faces",
    "method": "datalens",
    "epsilon": 0.123456789012345,
    "delta": 1.23456789e-7,
    "relation": "replace-one",
    "private_count": True,
    "records": 60_000,
    "size": 32,
    "grey": True,
    "split": "test",
    "label": "disease",
    "person": "patient id",
    "labels": "private:0.25",
    "public": "tiny.npz",
    "provenance": "a licence (CC0), https://example.org/a/b",
    "settings": {"steps": "3", "latent_distribution": "a b"},
    "count": 7,
    "format": "parquet",
    "seed": 9,
}


def parsed(line: str) -> Request:
    """The request that the real command line makes of a printed line."""
    found: list[Request] = []

    def caught(asked: Request, *others: object) -> None:
        found.append(asked)
        raise InputError("Stop here.")

    words = shlex.split(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "train" if words[1] == "train-classifier" else "carry_out", caught)
        assert words[0] == "sfumato" and run(words[1:]) == 2
    assert found, line
    return found[0]


def told(asked: Request) -> dict[str, object]:
    return {name: value for name, value in asdict(asked).items() if name not in UNTOLD}


def test_every_field_is_told_or_left_out_for_a_reason():
    assert set(OTHER) | UNTOLD | {"recipe"} == {field.name for field in fields(Request)}
    # Where the books, the keys and the folder are, how the work is cut up and in which process it is done, and how the
    # release is presented; none of it moves the guarantee.
    presented = {"license", "title", "contact"}
    assert {"ledger", "out", "sign", "signer", "device", "microbatch", "isolate"} | presented == UNTOLD


@pytest.mark.parametrize("name", OTHER)
def test_a_field_goes_round(name):
    asked = replace(BASE, **{name: OTHER[name]})
    assert told(parsed(asked.command())) == told(asked)


def test_all_fields_go_round_together():
    asked = Request(**OTHER)
    assert told(parsed(asked.command())) == told(asked)


words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=8)
plain = words.map(lambda text: text.replace("/", "").replace("\\", "").replace("=", "").strip()).filter(bool)
maybe = {
    "relation": st.sampled_from(["add-remove", "replace-one"]),
    "private_count": st.booleans(),
    "records": st.integers(1, 10**9),
    "size": st.integers(1, 4096),
    "grey": st.booleans(),
    "split": plain,
    "label": plain,
    "person": plain,
    "labels": st.sampled_from(["uniform", "private:0.25", "weights.csv"]),
    "public": plain,
    "provenance": plain,
    "count": st.integers(1, 10**6),
    "format": st.sampled_from(["png", "parquet"]),
    "seed": st.integers(0, 2**63 - 1),
    "epsilon": st.floats(0.001, 1000),
    "delta": st.floats(1e-15, 0.5),
    "settings": st.dictionaries(st.sampled_from(["steps", "features", "latent_distribution"]), plain, max_size=3),
}


@given(st.fixed_dictionaries({"data": plain}, optional=maybe))
def test_any_request_goes_round(given):
    asked = replace(BASE, **given)
    assert told(parsed(asked.command())) == told(asked)


def test_a_recipe_goes_round():
    name = "datalens-code-fashion-mnist-1"
    made = RECIPES[name]
    asked = replace(BASE, method=made.method, recipe=name, settings=made.texts() | {"topk": "100"}, person="who")
    asked = replace(asked, labels="uniform")  # as its numbers were measured
    assert told(parsed(asked.command())) == told(asked)
    assert f"--recipe {name}" in asked.command() and "--person who" in asked.command()


def test_local_places_are_left_out():
    asked = replace(
        BASE,
        data="celeba-hair:/home/ann/faces",
        public="/home/ann/tiny.npz",
        labels="/home/ann/w.csv",
        provenance="from /home/ann/notes",
        settings={"weights": "/home/ann/net.pt", "learning_rate": "1/50"},
        ledger="/home/ann/l",
        out="/home/ann/out",
        sign="/home/ann/key",
        signer="Ann",
    )
    line = asked.command()
    assert "ann" not in line.lower()
    back = parsed(line)
    assert (back.data, back.public, back.labels) == ("celeba-hair:faces", "tiny.npz", "w.csv")
    assert back.settings == {"weights": "net.pt", "learning_rate": "1/50"}


def test_a_classifier_goes_round():
    kept = {"data", "epsilon", "delta", "relation", "private_count", "records", "size", "grey", "split", "label"}
    given = {name: OTHER[name] for name in (*kept, "person", "settings", "seed")}
    asked = replace(BASE, **given, method="classifier")
    assert told(parsed(asked.command())) == told(asked)
