"""`sfumato recipes`: settings by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, number, pairs, table
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one recipe whole.", show_default=False)]
Method = Annotated[str | None, typer.Option(metavar="NAME", help="Those of this method.", show_default=False)]
Data = Annotated[str | None, typer.Option(metavar="NAME", help="Those made for this set.", show_default=False)]
Epsilon = Annotated[
    float | None,
    typer.Option(callback=options.epsilon_in_range, help="Those with this budget.", show_default=False),
]


def recipes(
    name: Name = None,
    method: Method = None,
    data: Data = None,
    epsilon: Epsilon = None,
    json: options.Json = False,
) -> Answer:
    """List the recipes: a method with settings and a budget, by name; some of them; or show one of them whole."""
    from sfumato import api

    given: dict[str, Any] = {"method": method, "data": data, "epsilon": epsilon}
    asked = {key: value for key, value in given.items() if value is not None}
    if name and asked:
        raise InputError(f"The name {name} asks for one recipe; leave it out, or --{' and --'.join(asked)}.")
    entries = api.recipes(name, **asked)
    if name is not None:
        return Answer(entries[0], lambda out: out.print(pairs(_whole(entries[0]))), json)
    if not entries:
        others = api.recipes(**dict(list(asked.items())[:1]))
        return Answer(entries, lambda out: out.print(_none(asked, others)), json)
    return Answer(entries, lambda out: _show(out, entries), json)


def _none(asked: dict[str, Any], others: list[dict[str, Any]]) -> str:
    """That no recipe has all that was asked for, and what there is with the first of it."""
    words = [f"--{key} {value if isinstance(value, str) else number(value)}" for key, value in asked.items()]
    kind = "data" if "method" in asked else "method"
    there: dict[str, set[float]] = {}
    for recipe in others:
        there.setdefault(recipe[kind], set()).add(recipe["epsilon"])
    listed = [f"{name} at epsilon {', '.join(map(number, sorted(found)))}" for name, found in sorted(there.items())]
    return f"No recipe has {' and '.join(words)} together; with {words[0]} there are {'; '.join(listed)}."


def _show(out: Console, entries: list[dict[str, Any]]) -> None:
    for title, verb, mine in (("Recipes", "synthesize", False), ("Recipes of classifiers", "train-classifier", True)):
        some = [r for r in entries if (r["method"] == "classifier") is mine]
        if not some:
            continue
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
