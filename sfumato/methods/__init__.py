"""The table of methods: plain data. One row, one short file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from sfumato.errors import InputError
from sfumato.methods.base import Method
from sfumato.types import Site

__all__ = ["TABLE", "Method", "Row", "find", "load_class"]


@dataclass(frozen=True)
class Row:
    """What a reader of `sfumato methods` sees.

    `axes` are those of the survey's figure 2: density (explicit, implicit), critic (learnable, static), objective
    (distribution-wise, point-wise) and objective again (tractable, approximate).
    """

    name: str
    module: str
    cls: str
    site: Site
    family: str
    paper: str
    framework: str  # Gaussian mechanism, DP-SGD or PATE
    axes: tuple[str, str, str, str]
    public_data: str  # "not used", "optional" or "needed"
    status: str
    relations: tuple[str, ...] = ("add-remove", "replace-one")
    sensitivity: str = "global"


# What may leave at each site beside generator and images, and what its attacker is assumed to see.
RELEASABLE = {
    Site.B1: ("the noisy measurement", "every release of the barrier, generator, images"),
    Site.B2: ("the critic, which is trained privately", "all noisy gradients or votes, critic, generator, images"),
    Site.B3: ("nothing", "all noisy gradients with respect to the fakes, generator, images; no critic"),
    Site.B4: ("nothing: the generator is the release", "all noisy gradients, generator, images"),
}


TABLE = (
    Row(
        name="datalens",
        module="datalens",
        cls="DataLens",
        site=Site.B3,
        family="teachers vote on gradients",
        paper="Wang, Wu, Long, Rimanic, Zhang, Li: DataLens (CCS 2021)",
        framework="PATE",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-merf",
        module="dp_merf",
        cls="DPMERF",
        site=Site.B1,
        family="mean embedding, one release",
        paper="Harder, Adamczewski, Park: DP-MERF (AISTATS 2021)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
)


def find(name: str) -> Row:
    """The row of a method."""
    for row in TABLE:
        if row.name == name:
            return row
    raise InputError(f"Expected a method of {', '.join(r.name for r in TABLE)}, found '{name}'.")


def load_class(row: Row) -> type[Method]:
    """The class behind a row, imported when it is needed."""
    cls: type[Method] = getattr(import_module(f"sfumato.methods.{row.module}"), row.cls)
    return cls
