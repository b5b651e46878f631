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
    "DPAF": "sfumato.methods.gan.dpaf.dpaf",
    "DPDM": "sfumato.methods.dpsgd.dpdm",
    "DPGAN": "sfumato.methods.gan.dpgan",
    "DPHP": "sfumato.methods.embedding.dp_hp",
    "DPMEPF": "sfumato.methods.embedding.dp_mepf",
    "DPMERF": "sfumato.methods.embedding.dp_merf",
    "DPMoments": "sfumato.methods.embedding.dp_moments",
    "DPNF": "sfumato.methods.dpsgd.dp_nf",
    "DPNTK": "sfumato.methods.embedding.dp_ntk",
    "DPSWD": "sfumato.methods.embedding.dp_swd",
    "DPSinkhorn": "sfumato.methods.sets.dp_sinkhorn",
    "DPVAE": "sfumato.methods.dpsgd.dp_vae",
    "DataLens": "sfumato.methods.teachers.datalens",
    "DataSpec": "sfumato.types",
    "GPATE": "sfumato.methods.teachers.g_pate",
    "GSWGAN": "sfumato.methods.teachers.gs_wgan",
    "Images": "sfumato.types",
    "InputError": "sfumato.errors",
    "KernelVotes": "sfumato.methods.teachers.kernel_votes",
    "Method": "sfumato.methods",
    "NDPDC": "sfumato.methods.sets.ndpdc",
    "OverBudget": "sfumato.errors",
    "P3GM": "sfumato.methods.dpsgd.p3gm",
    "PATEGAN": "sfumato.methods.teachers.pate_gan",
    "PEARL": "sfumato.methods.embedding.pearl",
    "Plan": "sfumato.privacy.plan",
    "PrivateEvolution": "sfumato.methods.sets.private_evolution",
    "PrivateSet": "sfumato.methods.sets.private_set",
    "Relation": "sfumato.accounting.budget",
    "Release": "sfumato.release",
    "Run": "sfumato.run.run",
    "Sfumato": "sfumato.methods.house.sfumato",
    "Synthesizer": "sfumato.estimator",
    "Unit": "sfumato.accounting.budget",
    "load": "sfumato.data",
    "synthesize": "sfumato.api",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
