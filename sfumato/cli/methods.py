"""`sfumato methods`: what can be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.cli import options
from sfumato.cli.show import Answer, pairs, table

if TYPE_CHECKING:
    from rich.console import Console


def methods(json: options.Json = False) -> Answer:
    """List the methods: where each puts the privacy barrier, its family, paper and settings."""
    from sfumato import api

    found = api.methods()
    return Answer(found, lambda out: _show(out, found), json)


def _show(out: Console, found: list[dict[str, Any]]) -> None:
    rows = [(m["name"], f"{m['site']}: {m['barrier']}", m["family"], m["paper"], m["status"]) for m in found]
    out.print(table("Methods", ("name", "barrier", "family", "paper", "status"), rows))
    lines = [(m["name"], ", ".join(f"{field}={value}" for field, value in m["settings"].items())) for m in found]
    out.print("Settings and their defaults, for --set FIELD=VALUE:")
    out.print(pairs(lines))
