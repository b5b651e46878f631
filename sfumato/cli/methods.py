"""`sfumato methods`: what can be asked for, what each is good for, and what was measured of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, number, pairs, table

if TYPE_CHECKING:
    from rich.console import Console

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one method whole.", show_default=False)]
SETTINGS = ("setting", "default", "range", "about")
RESULTS = ("set", "epsilon", "accuracy", "seeds", "network", "machine", "m:ss", "by")
OPTIONS = ("size", "count", "microbatch")  # which are no settings of a method
PROTOCOL = (
    "Accuracy in per cent, on real test images, of a network that learned from synthetic ones alone; m:ss is what a "
    "run took, often beside others on the same machine."
)


def methods(name: Name = None, json: options.Json = False) -> Answer:
    """List the methods: first the ones to take, then the others by family; or show one with settings and results."""
    from sfumato import api

    described = api.methods(name)
    if name is None:
        return Answer(described, lambda out: _list(out, described), json)
    from sfumato.bench.measured import measured

    method = described[0] | {"results": measured(name)}
    return Answer(method, lambda out: _whole(out, method), json)


def _list(out: Console, described: list[dict[str, Any]]) -> None:
    """The ones to take, then families; a method is told once."""
    rest = [method for method in described if not method["recommended"]]
    first = [method for method in described if method["recommended"]]
    _group(out, "Take one of these", sorted(first, key=lambda method: method["recommended"]))
    for group in sorted({method["group"] for method in rest}):
        _group(out, group, [method for method in rest if method["group"] == group])
    out.print("All of one, with settings, ranges and measured accuracy: `sfumato methods NAME`.")


def _group(out: Console, title: str, some: list[dict[str, Any]]) -> None:
    out.print(title, style="bold")
    doubts = {m["name"]: "" if m["status"] == "sound" else f" ({m['status']})" for m in some}
    out.print(pairs((f"  {m['name']:<17}", m["good_for"] + doubts[m["name"]]) for m in some))
    out.print()


def _whole(out: Console, method: dict[str, Any]) -> None:
    lines = [
        ("method", method["name"]),
        ("good for", method["good_for"]),
        ("barrier", f"{method['site']}, {method['barrier']}"),
        ("family", method["family"]),
        ("paper", method["paper"]),
        ("framework", method["framework"]),
        ("axes", method["model"]),
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
    out.print()
    _results(out, method["results"])


def _words(setting: dict[str, Any]) -> tuple[str, str, str]:
    """Default, range and description of a setting; the unit stands with the description."""
    unit = f" ({setting['unit']})" if setting.get("unit") else ""
    return str(setting["default"]), setting.get("range", ""), setting.get("about", "") + unit


def _results(out: Console, results: list[dict[str, Any]]) -> None:
    """What was measured, and beneath it what each line was made with."""
    if not results:
        return out.print("Nothing was measured of it yet.")
    made = {words: str(n) for n, words in enumerate(dict.fromkeys(map(_made_with, results)), 1)}
    rows = [(*_result(line), made[_made_with(line)]) for line in results]
    out.print(table("Measured", RESULTS, rows, whole=RESULTS))
    out.print(pairs((f"by {n}", words) for words, n in made.items()))
    return out.print(PROTOCOL)


def _result(line: dict[str, Any]) -> tuple[str, ...]:
    spread = "" if line["spread"] is None else f" ± {100 * line['spread']:.1f}"
    seconds = "" if line["seconds"] is None else "{}:{:02}".format(*divmod(round(line["seconds"]), 60))
    accuracy = f"{100 * line['accuracy']:.1f}{spread}"
    where = (line["network"], line["machine"], seconds)
    return line["data"], number(line["epsilon"]), accuracy, str(line["seeds"]), *where


def _made_with(line: dict[str, Any]) -> str:
    """The options that ask for the same."""
    recipe = [f"--recipe {line['recipe']}"] if line["recipe"] else []
    changes = [
        f"--{field} {value}" if field in OPTIONS else f"--set {field}={value}"
        for field, value in sorted(line["settings"].items())
    ]
    return " ".join(recipe + changes) or "the settings as they come"
