"""`sfumato methods`: all of them, and one with its settings."""

from __future__ import annotations

import json

import pytest

from sfumato.methods import find, names
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
    assert all(name in out for name in names()) and "sound" in out and "sfumato methods NAME" in out
    assert [row["name"] for row in json.loads(told("--json"))] == names()


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
