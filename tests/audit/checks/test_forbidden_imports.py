"""Imports that lead around the barrier."""

from __future__ import annotations

import sys
import types

import pytest

from sfumato.audit.checks.forbidden_imports import forbidden_imports
from sfumato.methods import find, names


@pytest.mark.parametrize("name", names())
def test_no_method_of_the_package_takes_one(name):
    found = forbidden_imports(find(name)())
    assert found.ok, found.detail


@pytest.mark.parametrize(
    "line",
    [
        "from sfumato.privacy.partitions import inside",
        "from sfumato.privacy.barrier import behind",
        "import gc",
        "from sfumato.data.private import records",
        "from sfumato.privacy.noise import Noise",
        "import sfumato.privacy.inside",
    ],
)
def test_a_module_that_takes_one_is_named(line, tmp_path, monkeypatch):
    path = tmp_path / "somebodys.py"
    path.write_text(f"{line}\n\nclass Mine:\n    pass\n")
    module = types.ModuleType("somebodys")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "somebodys", module)
    found = forbidden_imports(module.Mine())
    assert not found.ok and "somebodys imports" in found.detail
