"""Every test has a ledger, a folder of runs and a cache of its own, and computes on one thread."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SFUMATO_LEDGER", str(home / "ledger.sqlite"))
    monkeypatch.setenv("SFUMATO_RUNS", str(home / "runs"))
    monkeypatch.setenv("SFUMATO_CACHE", str(home / "cache"))


@pytest.fixture
def folder(tmp_path):
    """An empty folder for a data set."""
    (tmp_path / "set").mkdir()
    return tmp_path / "set"
