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
    """What a reader of `sfumato methods` sees."""

    name: str
    module: str
    cls: str
    site: Site
    family: str
    paper: str
    public_data: str
    status: str


TABLE = (
    Row(
        name="datalens",
        module="datalens",
        cls="DataLens",
        site=Site.B3,
        family="teachers vote on gradients",
        paper="Wang, Wu, Long, Rimanic, Zhang, Li: DataLens (CCS 2021)",
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
