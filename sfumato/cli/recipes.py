"""`sfumato recipes`: settings by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, number, pairs, table

if TYPE_CHECKING:
    from rich.console import Console

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one recipe whole.", show_default=False)]


def recipes(name: Name = None, json: options.Json = False) -> Answer:
    """List the recipes: a method with settings and a budget, by name; or show one of them whole."""
    from sfumato import api

    entries = api.recipes(name)
    if name is None:
        return Answer(entries, lambda out: _show(out, entries), json)
    return Answer(entries[0], lambda out: out.print(pairs(_whole(entries[0]))), json)


def _show(out: Console, entries: list[dict[str, Any]]) -> None:
    for title, verb, mine in (("Recipes", "synthesize", False), ("Recipes of classifiers", "train-classifier", True)):
        some = [r for r in entries if (r["method"] == "classifier") is mine]
        rows = [(r["name"], r["data"], number(r["epsilon"]), r["kind"], r["paper"]) for r in some]
        out.print(table(title, ("name", "data", "epsilon", "kind", "paper"), rows, whole=("name", "epsilon", "kind")))
        out.print(f"Use one with `sfumato {verb} DATA --recipe NAME`, or look at it with `sfumato recipes NAME`.")


def _whole(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    shape = "x".join(map(str, recipe["shape"]))
    published = [] if recipe["published"] is None else [("published", f"accuracy {recipe['published']:.4f}")]
    return [
        ("recipe", recipe["name"]),
        ("method", recipe["method"]),
        ("used by", "sfumato train-classifier" if recipe["method"] == "classifier" else "sfumato synthesize"),
        ("budget", f"epsilon {number(recipe['epsilon'])} at delta {number(recipe['delta'])}"),
        ("made for", f"{recipe['data']}: {recipe['records']:,} records, {shape}, {recipe['classes']} classes"),
        ("from", f"{recipe['kind']}; {recipe['paper']}"),
        ("settings", ", ".join(f"{field}={value}" for field, value in recipe["settings"].items())),
        *published,
        ("note", recipe["note"]),
    ]
