"""`sfumato check-public`: does a public set keep clear of the private one, and is it near enough to help?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, number, pairs, plain, table, warned

if TYPE_CHECKING:
    from rich.console import Console

Data = Annotated[str, typer.Argument(metavar="DATA", help="The private images.", show_default=False)]
Public = Annotated[str, typer.Option(metavar="DATA", help="The set that is to be called public.", show_default=False)]
INTERNAL = "These numbers were counted in private images without noise: keep them inside, do not publish them."


def check_public(
    data: Data,
    public: Public,
    size: options.Size = None,
    grey: options.Grey = False,
    split: options.Split = "train",
    label: options.Label = None,
    json: options.Json = False,
) -> Answer:
    """Look for private records in a public set, and for how far the two are apart.

    The result is internal: it is shown here and written nowhere.
    """
    from sfumato import api

    for source in (data, public):
        api.must_exist(source)
    found = api.check_public(data, public, size=size, grey=grey, split=split, label=label)
    return Answer(found, lambda console: _show(console, found), json)


def _show(out: Console, found: dict[str, Any]) -> None:
    told = [
        ("private", f"{found['records']:,} records"),
        ("public", f"{found['public_images']:,} images"),
        ("in both", f"{found['exact']:,} pixel for pixel, {found['near']:,} more that look alike"),
        ("distance", f"{number(found['far'])} times that of private images from each other"),
    ]
    out.print(pairs(told))
    if found["pairs"]:
        rows = [(str(row), str(at)) for row, at in found["pairs"]]
        out.print(table("Pairs that look alike, by their numbers from 0", ("private", "public"), rows))
    warned(out, [plain(sentence) for sentence in found["warnings"]])
    if found["touches_private"]:
        out.print(INTERNAL)
