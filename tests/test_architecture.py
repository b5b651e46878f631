"""The shape of the code, kept by reading it."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato
from sfumato.methods import Method, find, names

ROOT = Path(sfumato.__file__).parent
SOURCES = sorted(p for p in ROOT.rglob("*.py"))


# What may import what: a folder, or a module beside them, imports what stands before it and nothing that stands after.
ORDER = (
    "errors",
    "record_rng",
    "remembered",
    "accounting",
    "types",
    "data",
    "privacy",
    "ledger",
    "run",
    "networks",
    "engine",
    "methods",
    "recipes",
    "release",
    "evaluate",
    "audit",
    "classify",
    "remote",
    "flow",
    "federation",
    "api",
    "estimator",
    "bench",
    "studio",
    "cli",
)
ENTRANCES = ("__init__.py", "__main__.py")  # of the package: they lead to everything, and nobody imports them back
LAZY = 373  # imports inside functions, for a light start; at most as many as there are
STATEMENTS = 30  # of a `learn`, counted through its nested functions


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def layers_imported(path: Path) -> Iterator[tuple[str, str]]:
    """(layer, kind) of each import of ours: `top`, `lazy` (inside a function, or by a name in a string) or `hint`."""
    source = path.read_text()
    by_name = re.search(r"\b(import_module|patch)\(", source) is not None

    def walk(node: ast.AST, kind: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(child, "hint")
                continue
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            inner = "lazy" if function and kind != "hint" else kind
            yield from ((name.split(".")[1], inner) for name in _modules(child))
            if by_name and isinstance(child, ast.Constant) and re.fullmatch(r"sfumato(\.\w+)+", str(child.value)):
                yield child.value.split(".")[1], "lazy"
            yield from walk(child, inner)

    return ((name, kind) for name, kind in walk(ast.parse(source), "top") if name in ORDER)


def _modules(node: ast.AST) -> list[str]:
    """The modules of ours that a statement imports, written out."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.startswith("sfumato.")]
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("sfumato"):
        return []
    return [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "sfumato" else [str(node.module)]


def upward() -> dict[str, Counter[tuple[str, str]]]:
    """Imports of what stands later in the order, by kind."""
    against: dict[str, Counter[tuple[str, str]]] = {"top": Counter(), "lazy": Counter(), "hint": Counter()}
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        if name in ENTRANCES:
            continue
        for imported, kind in layers_imported(path):
            if ORDER.index(imported) > ORDER.index(layer(path)):
                against[kind][name, imported] += 1
    return against


def test_every_folder_has_its_place_in_the_order():
    assert {layer(path) for path in SOURCES if path.name not in ENTRANCES or path.parent != ROOT} == set(ORDER)


def test_folders_import_in_one_order_also_inside_functions_and_for_hints():
    assert upward() == {"top": Counter(), "lazy": Counter(), "hint": Counter()}


def test_imports_inside_functions_do_not_grow():
    assert sum(kind == "lazy" for path in SOURCES for _, kind in layers_imported(path)) <= LAZY


def learn_of(name: str) -> ast.FunctionDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(find(name).learn))).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def statements(function: ast.FunctionDef) -> int:
    """Statements in a function, those of nested functions and blocks included; a docstring is none."""
    inside = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return inside - (ast.get_docstring(function) is not None)


def crosses(function: ast.FunctionDef) -> bool:
    """Whether `barrier.release(...)` is written in it."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(ast.unparse(call) == "barrier.release" for call in calls)


@pytest.mark.parametrize("name", names())
def test_learn_is_an_algorithm_on_a_page(name):
    assert statements(learn_of(name)) <= STATEMENTS


@pytest.mark.parametrize("name", names())
def test_the_crossing_is_seen_where_a_method_learns(name):
    assert crosses(learn_of(name))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(folder: str) -> dict[Path, set[str]]:
    return {p: {i for i in imports(p) if i.startswith("sfumato")} for p in (ROOT / folder).rglob("*.py")}


def offenders(folder: str, forbidden: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(str(p), i) for p, found in ours(folder).items() for i in found if i.startswith(forbidden)]


def test_accounting_stands_alone_and_is_pure():
    for path, found in ours("accounting").items():
        assert all(i.startswith("sfumato.accounting") for i in found), path
        assert not {i for i in imports(path) if i.split(".")[0] in {"torch", "time", "os", "pathlib", "random"}}, path


def test_networks_know_neither_privacy_nor_data():
    assert offenders("networks", ("sfumato.privacy", "sfumato.data")) == []


def test_methods_and_trainers_have_no_road_to_data_or_noise():
    for folder in ("methods", "engine", "networks"):
        allowed = {
            "sfumato.data.private.PrivateImages",
            "sfumato.data.private",
        }  # the type of the opaque box, for hints
        found = offenders(folder, ("sfumato.data.private", "sfumato.privacy.noise"))
        assert [f for f in found if not (f[0].endswith("methods/base.py") and f[1] in allowed)] == []


def test_the_door_into_the_box_is_opened_in_few_places():
    # Evaluation against real data is internal: nothing it computes can pass the export gate.
    opening = [p.relative_to(ROOT).as_posix() for p in SOURCES if "sfumato.data.private.records" in imports(p)]
    assert sorted(opening) == ["data/public.py", "evaluate/real.py", "ledger/charge.py", "privacy/inside.py"]


def test_held_parts_are_opened_by_the_barrier_and_by_checkpoints_alone():
    opening = [p.relative_to(ROOT).as_posix() for p in SOURCES if "sfumato.privacy.partitions.inside" in imports(p)]
    assert {p for p in opening if not p.startswith("audit/")} == {
        "privacy/inside.py",
        "privacy/one_of_several.py",  # which keeps the state of a site's teachers
        "run/run.py",
    }


def test_accounts_met_through_records_are_asked_for_by_the_custodian_s_verb_alone():
    """`Ledger.show` follows records from account to account; whatever leaves takes `Ledger.told`."""
    asking = [p.relative_to(ROOT).as_posix() for p in SOURCES if re.search(r"ledger\.show\(", p.read_text())]
    assert sorted(asking) == ["ledger/reservation.py", "ledger/store.py"]  # `budget_of`, and an example
    assert (ROOT / "ledger/reservation.py").read_text().count("ledger.show(") == 1


def test_the_command_line_talks_to_the_api_alone():
    allowed = (
        "sfumato.api",
        "sfumato.bench",  # which runs whole releases through the api, and so stands above it
        "sfumato.studio",  # a page over the same functions, which stands above them too
        "sfumato.flow.request",
        "sfumato.flow.approval",
        "sfumato.errors",
        "sfumato.cli",
        "sfumato.run.progress",
        "sfumato.__version__",
    )
    bad = [
        (p.name, i) for p, found in ours("cli").items() for i in found if i != "sfumato" and not i.startswith(allowed)
    ]
    assert [b for b in bad if b[1] not in ("sfumato.run", "sfumato.flow")] == []


def test_the_studio_holds_no_logic_of_privacy():
    """It neither accounts, nor samples, nor opens the box; how many percent an epsilon means is a formula of words."""
    forbidden = (
        "sfumato.privacy",
        "sfumato.data.private",
        "sfumato.engine",
        "sfumato.ledger.store",
        "sfumato.ledger.charge",
    )
    accountants = [f"sfumato.accounting.{name}" for name in ("pld", "rdp", "accountant", "calibrate", "filters")]
    assert offenders("studio", (*forbidden, *accountants)) == []


def test_privacy_noise_is_drawn_in_privacy_alone():
    for path in SOURCES:
        if path.parent.name != "privacy":
            assert "sfumato.privacy.noise" not in {i for i in imports(path) if not i.endswith("TYPE_CHECKING")}, path


def test_nothing_is_pickled():
    for path in SOURCES:
        text = path.read_text()
        assert not {i for i in imports(path) if i.split(".")[0] in {"pickle", "dill", "joblib", "cloudpickle"}}, path
        assert not re.search(r"torch\.load\((?!.*weights_only=True)|torch\.save\(|allow_pickle=True", text), path


def test_the_table_and_the_folder_agree():
    for name in names():
        cls = find(name)
        assert issubclass(cls, Method) and cls.name == name and cls.status.startswith(("sound", "experimental"))


def test_the_public_names_exist():
    for name in sfumato.__all__:
        assert getattr(sfumato, name) is not None
    with pytest.raises(AttributeError):
        _ = sfumato.nothing


def test_import_is_light():
    line = "import sys, sfumato; print([m for m in ('torch', 'scipy', 'pyarrow', 'PIL', 'numpy') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
