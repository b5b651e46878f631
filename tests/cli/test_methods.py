"""`sfumato methods`: all of them, and one with its settings."""

from __future__ import annotations

import json

import pytest

from sfumato.bench.measured import measured
from sfumato.methods import RECOMMENDED, family_of, find, names
from sfumato.methods.settings import declared
from tests.cli.test_cli import call, refused


def told(*argv: str) -> str:
    """What `sfumato methods` prints; for people it fits eighty columns."""
    status, out, err = call("methods", *argv)
    assert (status, err) == (0, "")
    assert "--json" in argv or max(map(len, out.splitlines())) <= 80
    return out


def test_all_methods_are_listed():
    out = told()
    assert all(f"  {name} " in out for name in names()) and "sfumato methods NAME" in out
    assert [row["name"] for row in json.loads(told("--json"))] == names()


def test_the_ones_to_take_come_first_and_the_others_by_family():
    first, *families, _ = told().split("\n\n")
    words = " ".join(first.split())
    places = [words.index(f"{name} {find(name).good_for}") for name in RECOMMENDED]
    assert 2 <= len(RECOMMENDED) <= 3 and places == sorted(places) and first.count("\n  ") >= len(RECOMMENDED)
    for family in families:
        title, *lines = family.splitlines()
        assert {family_of(line.split()[0]) for line in lines if line[2] != " "} == {title}


def test_one_method_tells_what_was_measured():
    text = told("dpdm")
    assert (
        "Large budgets" in text and "fashion-mnist  1        77.2 ± 1.1  3      cnn      NVIDIA H200  4:54  2" in text
    )
    assert "by 2  --recipe dpdm-ours-fashion-mnist-1" in text
    method = json.loads(told("dpdm", "--json"))
    assert method["results"] == json.loads(json.dumps(measured("dpdm"))) and method["good_for"] == find("dpdm").good_for
    assert "--set features=20000" in told("dp-merf") and "wrn" in told("sfumato")


def test_one_method_says_what_it_is_and_what_can_be_set():
    words = " ".join(told("dp-merf").split())
    for expected in ("B1, between real data and measurement", "AISTATS 2021", "Gaussian mechanism", "replace-one"):
        assert expected in words
    assert "features 2000 from 2" in words
    method = json.loads(told("dp-merf", "--json"))
    assert method["settings"]["features"] == {
        "default": 2000,
        "range": "from 2, up to 1e+06, a multiple of 2",
        "unit": "",
        "about": "D, random features, cosine and sine of each frequency",
    }
    assert method["deviations"] == list(find("dp-merf").deviations) != []


@pytest.mark.parametrize("name", names())
def test_every_setting_is_told_with_what_is_declared(name):
    cls = find(name)
    settings = json.loads(told(name, "--json"))["settings"]
    assert {field: setting["default"] for field, setting in settings.items()} == cls().settings()
    for field, about in declared(cls).items():
        assert settings[field]["about"] == about.about and settings[field]["range"] == about.range()
    assert all(field in told(name) for field in settings)


def test_an_unknown_method_is_refused():
    assert "dp-merf" in refused("methods", "nothing")
    assert refused("methods", "dpmerf") == "Expected a method, found 'dpmerf'; did you mean dp-merf?"
