"""`sfumato refit`: a new generator from what a release already carries."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.released import released
from sfumato.cli.show import Answer

Count = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=lambda value: None if value is None else options.count_in_range(value),
        help="Number of synthetic images.",
        show_default="as many as the release has",
    ),
]
Out = Annotated[str, typer.Option(metavar="DIR", help="The folder to write; new or empty.", show_default=False)]


def refit(
    release: options.Release,
    out: Out,
    count: Count = None,
    seed: options.Seed = 1,
    set: options.Settings = None,
    format: options.Format = "png",
    json: options.Json = False,
) -> Answer:
    """Train a new generator from the sanitised measurement of a release. Costs no privacy."""
    from sfumato import api

    api.release_folder(release)
    new_release = api.refit(release, out, seed=seed, count=count, settings=options.settings(set), format=format)
    return released(
        new_release, out, json, cost="none: the real images were not touched, the guarantee stays as it was"
    )
