"""Imports that lead around the barrier."""

from __future__ import annotations

import sys
import types
from itertools import count

import pytest

from sfumato.audit.checks.forbidden_imports import forbidden_imports
from sfumato.methods import find, names

NUMBERS = count()


@pytest.mark.parametrize("name", names())
def test_no_method_of_the_package_takes_one(name):
    found = forbidden_imports(find(name)())
    assert found.ok, found.detail


def imported(line, tmp_path, monkeypatch):
    """A method of a module with this import."""
    name = f"somebodys_{next(NUMBERS)}"  # what a module imports is read once
    path = tmp_path / f"{name}.py"
    path.write_text(f"{line}\n\nclass Mine:\n    pass\n")
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    return module.Mine()


@pytest.mark.parametrize(
    "line",
    [
        "from sfumato.privacy.partitions import inside",
        "from sfumato.privacy.barrier import behind",
        "import gc",
        "from sfumato.data.private import records",
        "from sfumato.privacy.noise import Noise",
        "import sfumato.privacy.inside",
        "from sfumato.privacy.samplers import draw_count",
        "from sfumato.privacy.samplers import Poisson, draw_index as chosen",
        "from sfumato.privacy.samplers import Noise",
        "from sfumato.privacy.samplers import *",
        "from sfumato.privacy import samplers",
        "import sfumato.privacy.samplers as who",
        "from sfumato.privacy import partitions",
    ],
)
def test_a_module_that_takes_one_is_named(line, tmp_path, monkeypatch):
    found = forbidden_imports(imported(line, tmp_path, monkeypatch))
    assert not found.ok and " imports " in found.detail


def test_samplers_themselves_are_no_road(tmp_path, monkeypatch):
    line = "from sfumato.privacy.samplers import FullBatch, Poisson"
    assert forbidden_imports(imported(line, tmp_path, monkeypatch)).ok
