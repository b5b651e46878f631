"""`sfumato keygen`: a key to sign releases with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, path_line

if TYPE_CHECKING:
    from rich.console import Console

File = Annotated[str, typer.Argument(metavar="FILE", help="The private key to write; new.", show_default=False)]


def keygen(file: File, json: options.Json = False) -> Answer:
    """Make a key to sign releases with, and print its public half, which readers give to verify --key."""
    from sfumato import api

    keys = {"key": str(Path(file).absolute()), "public_key": api.make_key(file)}
    return Answer(keys, lambda out: _show(out, keys), json)


def _show(out: Console, keys: dict[str, Any]) -> None:
    path_line(out, "key", keys["key"])
    path_line(out, "public key", keys["public_key"])
    out.print("Keep the key file to yourself; tell the public key to those who will check your releases.")
