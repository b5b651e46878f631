"""The measures of the package's shape, on small made-up houses and on this one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import shape

ROOT = Path(__file__).parents[2]


def test_folders_that_lead_to_each_other_are_a_knot():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert shape.knots(edges) == [["b", "c"]]
    assert shape.knots({"a": set(), "b": {"a"}}) == []


def test_imports_inside_functions_count_and_hints_do_not():
    tree = ast.parse(
        "from sfumato.data import load\n"
        "if TYPE_CHECKING:\n    from sfumato.audit import check\n"
        "def f():\n    from sfumato import api\n"
    )
    assert set(shape.imported(tree, lazy=False)) == {"data"}
    assert set(shape.imported(tree, lazy=True)) == {"data", "api"}


@pytest.mark.parametrize(("line", "is_packed"), [("a, b = 1, 2", 1), ("a, b = b, a", 0), ("a, b = f()", 0)])
def test_packed_assignments(line, is_packed):
    assert shape.packed(ast.parse(line)) == is_packed


def test_this_house_is_measured():
    numbers = shape.shape(ROOT, runs=False)
    assert numbers["fmt: skip"] == 0 and numbers["files"] > 300
    assert dict(shape.rows(numbers))["fmt: skip"] == "0"
