"""Names that packages export: things, never the file of the same name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import sfumato

PACKAGES = [m.name for m in pkgutil.walk_packages(sfumato.__path__, "sfumato.") if m.ispkg]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_file_has_the_name_of_something_exported_beside_it(name):
    package = import_module(name)
    exported = set(getattr(package, "__all__", ()))
    assert exported & {module.name for module in pkgutil.iter_modules(package.__path__)} == set()
    assert [export for export in exported if isinstance(getattr(package, export), ModuleType)] == []
