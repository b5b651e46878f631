"""`sfumato methods`: what can be asked for, and what each method says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, pairs, table

if TYPE_CHECKING:
    from rich.console import Console

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one method whole.", show_default=False)]
SETTINGS = ("setting", "default", "range", "about")


def methods(name: Name = None, json: options.Json = False) -> Answer:
    """List the methods: where each puts the privacy barrier, its family and paper; or show one with its settings."""
    from sfumato import api

    described = api.methods(name)
    if name is None:
        return Answer(described, lambda out: _list(out, described), json)
    return Answer(described[0], lambda out: _whole(out, described[0]), json)


def _list(out: Console, described: list[dict[str, Any]]) -> None:
    rows = [(m["name"], f"{m['site']}: {m['barrier']}", m["family"], m["paper"], m["status"]) for m in described]
    out.print(table("Methods", ("name", "barrier", "family", "paper", "status"), rows, whole=("name", "status")))
    out.print("The settings of one, for --set FIELD=VALUE: `sfumato methods NAME`.")


def _whole(out: Console, method: dict[str, Any]) -> None:
    density, critic, objective, tractable = method["axes"]
    lines = [
        ("method", method["name"]),
        ("barrier", f"{method['site']}, {method['barrier']}"),
        ("family", method["family"]),
        ("paper", method["paper"]),
        ("framework", method["framework"]),
        ("axes", f"{density} density, {critic} critic, {objective} objective, {tractable}"),
        ("relations", ", ".join(method["relations"])),
        ("public data", method["public_data"]),
        ("releases", f"generator and images; beside them {method['releasable']}"),
        ("attacker", f"sees {method['attacker_sees']}"),
        ("status", method["status"]),
        *((f"differs {n}", sentence) for n, sentence in enumerate(method["deviations"], 1)),
    ]
    out.print(pairs(lines))
    out.print()
    rows = [(field, *_words(setting)) for field, setting in method["settings"].items()]
    out.print(table("Settings, for --set FIELD=VALUE", SETTINGS, rows, whole=("setting",)))


def _words(setting: dict[str, Any]) -> tuple[str, str, str]:
    """Default, range and description of a setting; the unit stands with the description."""
    unit = f" ({setting['unit']})" if setting.get("unit") else ""
    return str(setting["default"]), setting.get("range", ""), setting.get("about", "") + unit
