"""What is said of a release once it is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.options import Loudness
from sfumato.cli.show import Answer, names, number, pairs, path_line, plain, table, warned

if TYPE_CHECKING:
    from rich.console import Console


def released(release: Any, folder: str, as_json: bool, cost: str | None = None, how: Loudness | None = None) -> Answer:
    """The answer of the verbs that write a release folder."""
    statement = release.statement
    place = Path(folder).absolute()
    guarantee = {key: statement["guarantee"][key] for key in ("epsilon", "delta", "relation", "unit", "mu", "summary")}
    facts = {
        "release": str(place),
        "report": str(place / "report.html"),
        "guarantee": guarantee | {"accountant": statement["accountant"]["name"]},
        "crossings": statement["mechanisms"]["events"],
        "classes": list(release.classes),
        "warnings": list(statement["deviations"]["warnings"]),
        "images": len(release.images),
        "distinct": release.distinct,
    }
    if how and how.quiet:
        return quietly(facts, facts["release"], as_json)
    settings = statement["declared_public"]["settings"] if how and how.verbose else None
    return Answer(facts, lambda out: _show(out, facts, statement["plain_words"]["summary"], cost, settings), as_json)


def images_told(images: int, distinct: int) -> str:
    """So many images, and how many of them are not repetitions.

    >>> images_told(10_000, 100), images_told(20, 20)
    ('10,000 files of 100 distinct images: each is repeated', '20, all distinct')
    """
    return (
        f"{images:,}, all distinct"
        if images == distinct
        else (f"{images:,} files of {distinct:,} distinct images: each is repeated")
    )


def quietly(facts: dict[str, Any], path: str, as_json: bool) -> Answer:
    """An answer of one line, the path, for scripts; warnings go where errors go."""

    def show(out: Console) -> None:
        for warning in facts["warnings"]:
            print(f"warning: {plain(warning)}", file=sys.stderr)
        out.print(plain(path), soft_wrap=True)

    return Answer(facts, show, as_json)


def crossings(out: Console, facts: dict[str, Any], settings: dict[str, Any]) -> None:
    """All that was asked of the data, and the settings: what --verbose adds."""
    columns = ("crossing", "mechanism", "sigma", "sensitivity", "sampling", "times")
    rows = [
        (e["name"], e["mechanism"], number(e["sigma"]), number(e["sensitivity"]), e["sampling"], str(e["times"]))
        for e in facts["crossings"]
    ]
    out.print(table("Crossings", columns, rows))
    out.print(pairs([("accountant", facts["guarantee"]["accountant"])]))
    out.print(pairs([("settings", ", ".join(f"{name}={value}" for name, value in settings.items()))]))


def _show(
    out: Console, facts: dict[str, Any], plain_words: str, cost: str | None, settings: dict[str, Any] | None
) -> None:
    shown = [
        ("guarantee", facts["guarantee"]["summary"]),
        ("", plain_words),
        ("images", images_told(facts["images"], facts["distinct"])),
        ("classes", f"declared public: {names(facts['classes'])}"),
    ]
    out.print(pairs([("cost", cost), *shown] if cost else shown))
    if settings is not None:
        crossings(out, facts, settings)
    warned(out, facts["warnings"])
    path_line(out, "release", facts["release"])
    path_line(out, "report", facts["report"])
