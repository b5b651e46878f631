from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.release.files.gate import CLASS_FOLDER
from sfumato.release.files.names import base_name, class_folders, hide_paths, public_command, scrub


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("/home/ann/scans", "scans"),
        ("/home/ann/scans/", "scans"),
        ("scans/set.npz", "set.npz"),
        ("digits", "digits"),
        ("cifar10:/data/cifar", "cifar10:cifar"),
        ("C:\\ann\\scans", "scans"),
        ("/", "data"),
        ("..", "data"),
    ],
)
def test_base_name(name: str, public: str) -> None:
    assert base_name(name) == public


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("See /home/ann/x.png, please", "See x.png, please"),
        ("in ~/work/ann/scans now", "in scans now"),
        ("add and/or remove, 1/2 or 2/(m+1)", "add and/or remove, 1/2 or 2/(m+1)"),
        ("from https://example.org/a/b", "from https://example.org/a/b"),
    ],
)
def test_hide_paths(text: str, public: str) -> None:
    assert hide_paths(text) == public


def test_scrub_reaches_every_depth() -> None:
    value = {"a": ["in my set/of x", {"b": "my set/of x"}], "n": 3}
    assert scrub(value, "my set/of x") == {"a": ["in of x", {"b": "of x"}], "n": 3}


def test_public_command() -> None:
    line = "sfumato synthesize '/home/ann/my scans' --out=/tmp/x/release --set rate=1/50 --epsilon 1"
    assert public_command(line) == "sfumato synthesize 'my scans' --out=release --set rate=1/50 --epsilon 1"
    assert "ann" not in public_command("sfumato /home/ann/x 'open quote")


@given(st.lists(st.text(max_size=80), min_size=1, max_size=8, unique=True))
def test_class_folders_are_safe_and_distinct(classes: list[str]) -> None:
    folders = class_folders(classes)
    assert all(re.fullmatch(CLASS_FOLDER, folder) for folder in folders)
    assert all(len(folder.encode()) < 256 for folder in folders)
    assert len({folder.casefold() for folder in folders}) == len(classes)
    assert folders == class_folders(classes)
