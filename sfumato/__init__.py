"""Sfumato: private images in, publishable synthetic images out."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Names are imported on first use, so that `import sfumato` and `sfumato --help` do not wait for torch.
_HOMES = {
    "Barrier": "sfumato.privacy.barrier",
    "Bound": "sfumato.privacy.bounds",
    "BoundedSum": "sfumato.privacy.bounds",
    "Budget": "sfumato.accounting.budget",
    "Crossing": "sfumato.privacy.plan",
    "DPMERF": "sfumato.methods.dp_merf",
    "DataLens": "sfumato.methods.datalens",
    "DataSpec": "sfumato.types",
    "Images": "sfumato.types",
    "InputError": "sfumato.errors",
    "Method": "sfumato.methods",
    "OverBudget": "sfumato.errors",
    "Plan": "sfumato.privacy.plan",
    "Relation": "sfumato.accounting.budget",
    "Release": "sfumato.release",
    "Run": "sfumato.run.run",
    "Unit": "sfumato.accounting.budget",
    "load": "sfumato.data",
    "synthesize": "sfumato.api",
    "within": "sfumato.privacy.plan",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
