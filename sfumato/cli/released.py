"""What is said of a release once it is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.show import Answer, names, pairs, path_line, warned

if TYPE_CHECKING:
    from rich.console import Console


def released(release: Any, folder: str, as_json: bool, cost: str | None = None) -> Answer:
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
    }
    return Answer(facts, lambda out: _show(out, facts, statement["plain_words"]["summary"], cost), as_json)


def _show(out: Console, facts: dict[str, Any], plain_words: str, cost: str | None) -> None:
    shown = [
        ("guarantee", facts["guarantee"]["summary"]),
        ("", plain_words),
        ("images", f"{facts['images']:,}"),
        ("classes", f"declared public: {names(facts['classes'])}"),
    ]
    out.print(pairs([("cost", cost), *shown] if cost else shown))
    warned(out, facts["warnings"])
    path_line(out, "release", facts["release"])
    path_line(out, "report", facts["report"])
