"""The shape of the code, kept by reading it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato
from sfumato.methods import Method, find, names

ROOT = Path(sfumato.__file__).parent
SOURCES = sorted(p for p in ROOT.rglob("*.py"))


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
    assert {p for p in opening if not p.startswith("audit/")} == {"privacy/inside.py", "run/run.py"}


def test_accounts_met_through_records_are_asked_for_by_the_custodian_s_verb_alone():
    """`Ledger.show` follows records from account to account; whatever leaves takes `Ledger.told`."""
    asking = [p.relative_to(ROOT).as_posix() for p in SOURCES if re.search(r"ledger\.show\(", p.read_text())]
    assert sorted(asking) == ["ledger/reservation.py", "ledger/store.py"]  # for `budget_of`, and an example
    assert (ROOT / "ledger/reservation.py").read_text().count("ledger.show(") == 1


def test_the_command_line_talks_to_the_api_alone():
    allowed = (
        "sfumato.api",
        "sfumato.flow.request",
        "sfumato.errors",
        "sfumato.cli",
        "sfumato.run.progress",
        "sfumato.__version__",
    )
    bad = [
        (p.name, i) for p, found in ours("cli").items() for i in found if i != "sfumato" and not i.startswith(allowed)
    ]
    assert [b for b in bad if b[1] not in ("sfumato.run", "sfumato.flow")] == []


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
