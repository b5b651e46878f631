"""`sfumato sample`: more images from a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.refit import Out
from sfumato.cli.show import Answer, names, pairs, path_line

if TYPE_CHECKING:
    from rich.console import Console

Label = Annotated[str | None, typer.Option(metavar="CLASS", help="Only this class; the release's own mix otherwise.")]


def sample(
    release: options.Release,
    out: Out,
    count: options.Count = 1000,
    label: Label = None,
    seed: options.Seed = 0,
    format: options.Format = "png",
    json: options.Json = False,
) -> Answer:
    """Draw more synthetic images from a release. Costs no privacy."""
    from sfumato import api

    images = api.sample(release, count, out, label=label, seed=seed, format=format)
    facts = {
        "out": str(Path(out).absolute()),
        "images": len(images),
        "format": format,
        "classes": list(images.classes),
        "shape": list(images.pixels.shape[1:]),
    }
    return Answer(facts, lambda console: _show(console, facts, label), json)


def _show(out: Console, facts: dict[str, Any], label: str | None) -> None:
    shape = "x".join(map(str, facts["shape"]))
    which = names(facts["classes"]) if label is None else names([label])
    out.print(pairs([("images", f"{facts['images']:,} of {shape}"), ("classes", which), ("cost", "none")]))
    path_line(out, "written to", facts["out"])
