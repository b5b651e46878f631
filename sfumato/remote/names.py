"""What may be named on the wire: classes and functions of the installed package, found here and never sent.

A function travels by the name of its code. The receiver looks the code up in its own copy of the module, so that both
sides must run the same package (`fingerprint`), and no instruction of the sender's is ever carried out.
"""

from __future__ import annotations

import hashlib
import platform
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from sfumato.errors import SfumatoError

# Folders whose classes and functions queries are made of. None of them has a road to private data or to noise.
FOLDERS = ("engine", "networks", "methods")
MODULES = (
    "record_rng",
    "types",
    "accounting.budget",
    "data.labels",
    "privacy.bounds",
    "privacy.batch",
    "classify.networks",
    "classify.teachers",
    "classify.pate",
)
QUERIES = ("PartitionSum",)  # the one name of a module that also opens what is held
LAYERS = "torch.nn.modules."
Allowed = tuple[str, ...]  # further modules, of tests


class WireError(SfumatoError):
    """Something that may not travel."""

    exit_code = 4


def may_travel(module: str, name: str, allow: Allowed = ()) -> bool:
    """Whether a class or function of this module may be named."""
    if module.startswith(LAYERS) or module in allow:
        return True
    package, _, inner = module.partition(".")
    if package != "sfumato":
        return False
    if inner == "privacy.partitions":
        return name in QUERIES
    return inner in MODULES or inner.partition(".")[0] in FOLDERS


def refused(module: str, name: str) -> WireError:
    """What is said of anything else."""
    return WireError(
        f"{module}.{name} may not cross to the private side; queries must be those of an installed method, made of "
        "the engine's parts."
    )


def module_of(module: str, name: str, allow: Allowed) -> ModuleType:
    """The installed module that a name belongs to."""
    if not may_travel(module, name, allow):
        raise refused(module, name)
    try:
        return import_module(module)
    except ImportError as error:
        raise refused(module, name) from error


def found(module: str, name: str, allow: Allowed = ()) -> Any:
    """The class or function of this name, which must be defined in the module itself: a re-export is none."""
    value: Any = module_of(module, name, allow)
    for part in name.split("."):
        value = vars(value).get(part) if isinstance(value, type | ModuleType) else None
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if not callable(value) or getattr(value, "__module__", None) != module:
        raise refused(module, name)
    return value


def found_class(module: str, name: str, allow: Allowed = ()) -> type[Any]:
    """The class of this name."""
    value = found(module, name, allow)
    if not isinstance(value, type):
        raise refused(module, name)
    return value


def found_function(module: str, name: str, allow: Allowed = ()) -> Any:
    """The function of this name. Of torch's layers none is named: some of them change every network of a process."""
    value = found(module, name, allow)
    if isinstance(value, type) or module.startswith(LAYERS):
        raise refused(module, name)
    return value


def code_of(module: str, name: str, which: int, allow: Allowed = ()) -> tuple[CodeType, dict[str, Any]]:
    """The code of this name in the installed module, and the globals that it runs with."""
    here = module_of(module, name, allow)
    codes = [] if module.startswith(LAYERS) else _codes(module).get(name, [])
    if not 0 <= which < len(codes):
        raise refused(module, name)
    return codes[which], vars(here)


def which_code(function: FunctionType, allow: Allowed = ()) -> int:
    """Of the codes that bear the function's name, the number of its own."""
    module_of(function.__module__, function.__qualname__, allow)
    codes = _codes(function.__module__).get(function.__code__.co_qualname, [])
    if function.__code__ not in codes:
        raise refused(function.__module__, function.__qualname__)
    return codes.index(function.__code__)


@cache
def _codes(module: str) -> dict[str, list[CodeType]]:
    """All code of a module by its full name, in the order of the file."""
    spec = find_spec(module)
    loader = spec.loader if spec else None
    code = loader.get_code(module) if isinstance(loader, InspectLoader) else None
    by_name: dict[str, list[CodeType]] = defaultdict(list)
    for inner in _walk(code) if code is not None else ():
        by_name[inner.co_qualname].append(inner)
    return by_name


def _walk(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _walk(constant)


@cache
def fingerprint() -> str:
    """A digest of the package's sources and of what computes with them: the same on both sides, or nothing is asked."""
    import torch

    root = Path(__file__).parents[1]
    digest = hashlib.blake2b(f"{platform.python_version()}/{torch.__version__}".encode(), digest_size=32)
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
