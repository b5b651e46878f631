"""Tables in the documents that are written from the code: `python -m docs.tables` writes them anew.

A table stands between two comments, `<!-- table: KIND ARGUMENTS -->` and `<!-- end -->`, each on a line of its own.
`tests/test_docs.py` fails where a page says something else than the code does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
METHODS = ROOT / "docs" / "methods"
BLOCK = re.compile(r"^(<!-- table: ([^>]+?) -->\n).*?^(<!-- end -->)", re.DOTALL | re.MULTILINE)
UNNAMED = ("--help", "-h")  # options that every verb has


def pages() -> list[Path]:
    """Every document, those at the root included."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def page_of(method: str) -> Path:
    """The page of a method."""
    return METHODS / f"{method}.md"


def written(page: Path) -> str:
    """The text of a page with its tables as the code gives them."""

    def block(match: re.Match[str]) -> str:
        kind, *arguments = match[2].split()
        return f"{match[1]}{TABLES[kind](page, *arguments)}\n{match[3]}"

    return BLOCK.sub(block, page.read_text())


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as a table of markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def methods(page: Path) -> str:
    """All methods: name, site, family, paper; a name links to its page."""
    from sfumato import api

    def row(method: dict[str, Any]) -> tuple[str, str, str, str]:
        link = os.path.relpath(page_of(method["name"]), page.parent)
        barrier = f"{method['site']}, {method['barrier']}"
        return f"[`{method['name']}`]({link})", barrier, method["family"], method["paper"]

    return table(("name", "barrier", "family", "paper"), map(row, api.methods()))


def method(page: Path, name: str) -> str:
    """What one method says of itself, where it differs from its paper, and its settings."""
    from sfumato import api

    (described,) = api.methods(name)
    facts = [
        ("barrier", f"{described['site']}, {described['barrier']}"),
        ("good for", described["good_for"]),
        ("family", described["family"]),
        ("paper", described["paper"]),
        ("framework", described["framework"]),
        ("axes", described["model"]),
        ("public data", described["public_data"]),
        ("status", described["status"]),
    ]
    deviations = [f"- {sentence}" for sentence in described["deviations"]]
    differs = ["", "Where it differs from the paper:", "", *deviations] if deviations else []
    return "\n".join([table(("", ""), facts), *differs, "", settings(described["settings"])])


def settings(described: dict[str, dict[str, Any]]) -> str:
    """Settings with default, range, and what they are."""

    def row(name: str, setting: dict[str, Any]) -> tuple[str, str, str, str]:
        unit = f" ({setting['unit']})" if setting.get("unit") else ""
        return f"`{name}`", f"`{setting['default']}`", setting.get("range", ""), setting.get("about", "") + unit

    return table(("setting", "default", "range", "what it is"), (row(*item) for item in described.items()))


def classifier(page: Path, name: str) -> str:
    """Settings of a way to train a classifier."""
    from sfumato.classify import PATE, Classifier
    from sfumato.methods.settings import declared

    cls = {way.name: way for way in (Classifier, PATE)}[name]
    about = {field: {"range": s.range(), "unit": s.unit, "about": s.about} for field, s in declared(cls).items()}
    return settings({field: {"default": value, **about[field]} for field, value in cls().settings().items()})


def verbs(page: Path) -> str:
    """Each verb of the command line with what it does and its options."""
    import typer

    from sfumato import cli

    commands: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    return "\n\n".join(_verb(name, command) for name, command in commands.items())


def _verb(name: str, command: Any) -> str:
    about = " ".join((command.help or "").split())
    places = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not set(p.opts) & set(UNNAMED)]
    words = " ".join(_place(p) for p in places)
    rows = [(f"`{_place(p)}`", "", _help(p)) for p in places] + [(_option(p), _default(p), _help(p)) for p in options]
    line = f"    sfumato {' '.join(filter(None, (name, words)))} [OPTIONS]"
    return "\n\n".join((f"## {name}", about, line, table(("option", "default", "what it does"), rows)))


def _help(parameter: Any) -> str:
    return " ".join((parameter.help or "").split())


def _default(option: Any) -> str:
    shown = option.show_default and not option.is_flag and option.default is not None
    return f"`{option.default}`" if shown else ""


def _place(argument: Any) -> str:
    shown = str(argument.metavar or argument.name).upper().strip("[]")
    return shown if argument.required else f"[{shown}]"


def _option(option: Any) -> str:
    flags = ", ".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return f"`{flags}{value}`"


def recipes(page: Path, of: str) -> str:
    """The recipes of methods or of classifiers, gathered by the beginning of their names."""
    from sfumato.recipes import CLASSIFIERS, RECIPES

    groups: dict[str, list[Any]] = {}
    for recipe in {"methods": RECIPES, "classifiers": CLASSIFIERS}[of].values():
        groups.setdefault(_beginning(recipe), []).append(recipe)
    return table(("names", "how many", "settings of", "sets", "epsilon"), (_gathered(*g) for g in groups.items()))


def _beginning(recipe: Any) -> str:
    """The name up to what follows the method: `datalens-paper`, `topagg-mnist`."""
    known = recipe.name.startswith(f"{recipe.method}-")
    rest = recipe.name.removeprefix(f"{recipe.method}-").split("-")
    return f"{recipe.method}-{rest[0]}" if known else "-".join(rest[:2])


def _gathered(beginning: str, recipes: list[Any]) -> tuple[str, str, str, str, str]:
    sources = sorted({r.kind if r.paper == "none" else f"{r.kind}: {r.paper}" for r in recipes})
    sets = sorted({r.data for r in recipes})
    epsilons = sorted({r.epsilon for r in recipes})
    spread = [f"{e:g}" for e in epsilons] if len(epsilons) < 7 else [f"{epsilons[0]:g} to {epsilons[-1]:g}"]
    names = f"`{recipes[0].name}`" if len(recipes) == 1 else f"`{beginning}-…`"
    return names, str(len(recipes)), "; ".join(sources), ", ".join(f"`{s}`" for s in sets), ", ".join(spread)


def layers(page: Path) -> str:
    """The order in which folders may import, from `tests/test_architecture.py`."""
    from tests.test_architecture import ORDER

    return "\n".join(f"{number}. `{name}`" for number, name in enumerate(ORDER, 1))


def bench(page: Path, name: str = "") -> str:
    """The tables of the papers, or one of them: the printed values, and those of the package beside them."""
    from sfumato.bench import find, view
    from sfumato.bench.layout import pivot
    from sfumato.bench.results import read
    from sfumato.bench.run import Asked
    from sfumato.bench.table import Table

    if not name:
        counted = [e for e in view.overviews() if "cells" in e]
        rows = [(f"`{e['id']}`", e["shows"], *(str(e[s]) for s in view.STATES)) for e in counted]
        return table(("table", "what it shows", *view.STATES), rows)
    entry = find(name)
    if isinstance(entry, Table):
        return table(*pivot(view.described(entry, read())))
    listed = view.shown(name, Asked(Path("none")))
    return table(listed["columns"], listed["lines"])


TABLES: dict[str, Callable[..., str]] = {
    "methods": methods,
    "method": method,
    "classifier": classifier,
    "verbs": verbs,
    "recipes": recipes,
    "layers": layers,
    "bench": bench,
}


def main() -> None:
    """Write every table anew, and say which pages changed."""
    for page in pages():
        text = written(page)
        if text != page.read_text():
            page.write_text(text)
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
