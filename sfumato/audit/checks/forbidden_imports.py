"""Whether the code of a method leads around the barrier: imports that only the private side has a use for."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from types import ModuleType
from typing import Any

from sfumato.audit.recording.subject import Finding

FAMILIES = ("sfumato.methods", "sfumato.engine", "sfumato.networks", "sfumato.classify")
# The door into a box, what lies behind a barrier or a handle, the source of noise, and the process' own memory.
FORBIDDEN = (
    "sfumato.data.private.records",
    "sfumato.privacy.partitions.inside",
    "sfumato.privacy.partitions.Partitions",
    "sfumato.privacy.barrier.behind",
    "sfumato.privacy.barrier._BEHIND",
    "sfumato.privacy.inside",
    "sfumato.privacy.noise",
    "sfumato.privacy.samplers.Noise",
    "sfumato.privacy.samplers.draw_count",
    "sfumato.privacy.samplers.draw_index",
    "gc",
)
# Who imports the whole of a module that has such a name can reach it without naming it.
WHOLE = frozenset(module.rpartition(".")[0] for module in FORBIDDEN) - {""}
RUNNERS = (
    "sfumato.classify.train",
    "sfumato.classify.request",
    "sfumato.classify.release",
)  # around learning, not in it


def forbidden_imports(method: Any) -> Finding:
    """Imports in the module of a method, and in those of its family that it uses."""
    module = sys.modules.get(type(method).__module__)
    forbidden = sorted(f"{name} imports {taken}" for name in _used(module) for taken in _taken(name))
    said = "; ".join(forbidden) if forbidden else "nothing that leads around the barrier is imported"
    return Finding("forbidden imports", 0, not forbidden, said)


def _used(module: ModuleType | None) -> set[str]:
    """The module, and all of the families that it leads to."""
    seen: set[str] = set()
    todo = [] if module is None else [module.__name__]
    while todo:
        name = todo.pop()
        if name not in seen and name in sys.modules:
            seen.add(name)
            leads = {part for i in _imports(name) for part in (i, i.rpartition(".")[0])}
            todo += [i for i in leads if i.startswith(FAMILIES) and i not in RUNNERS]
    return seen


def _taken(name: str) -> list[str]:
    return [i for i in _imports(name) if i.removesuffix(".*") in WHOLE or _is_forbidden(i)]


def _is_forbidden(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in FORBIDDEN)


@cache
def _imports(name: str) -> frozenset[str]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or built in
        return frozenset()
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(imports)
