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
    "DPAF": "sfumato.methods.dpaf",
    "DPDM": "sfumato.methods.dpdm",
    "DPGAN": "sfumato.methods.dpgan",
    "DPHP": "sfumato.methods.dp_hp",
    "DPMEPF": "sfumato.methods.dp_mepf",
    "DPMERF": "sfumato.methods.dp_merf",
    "DPNF": "sfumato.methods.dp_nf",
    "DPNTK": "sfumato.methods.dp_ntk",
    "DPSWD": "sfumato.methods.dp_swd",
    "DPSinkhorn": "sfumato.methods.dp_sinkhorn",
    "DPVAE": "sfumato.methods.dp_vae",
    "DataLens": "sfumato.methods.datalens",
    "DataSpec": "sfumato.types",
    "GPATE": "sfumato.methods.g_pate",
    "GSWGAN": "sfumato.methods.gs_wgan",
    "Images": "sfumato.types",
    "InputError": "sfumato.errors",
    "Method": "sfumato.methods",
    "NDPDC": "sfumato.methods.ndpdc",
    "OverBudget": "sfumato.errors",
    "P3GM": "sfumato.methods.p3gm",
    "PATEGAN": "sfumato.methods.pate_gan",
    "PEARL": "sfumato.methods.pearl",
    "Plan": "sfumato.privacy.plan",
    "PrivateEvolution": "sfumato.methods.private_evolution",
    "PrivateSet": "sfumato.methods.private_set",
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
