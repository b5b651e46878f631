"""`sfumato verify`: check a release without the data it was made from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, one_line, path_line, table
from sfumato.errors import AuditFailed

if TYPE_CHECKING:
    from rich.console import Console

Key = Annotated[
    str | None,
    typer.Option(
        metavar="PUBLIC", help="Ask for a signature by this key: 64 hex digits or a PEM file.", show_default=False
    ),
]


def verify(release: options.Release, key: Key = None, json: options.Json = False) -> Answer | int:
    """Check the hashes, the signature, the guarantee and every document of a release. Needs no data."""
    from sfumato import api

    api.release_folder(release)
    verdict = api.verify(release, public_key=key).to_json()
    answer = Answer(verdict, lambda out: _show(out, verdict), json)
    if verdict["ok"]:
        return answer
    answer.give()
    wrong = ", ".join(row["check"] for row in verdict["checks"] if not row["ok"])
    refused = AuditFailed(f"{release} is refused ({wrong}); do not rely on it, and fetch it again.")
    if not json:
        raise refused
    print(f"error: {one_line(str(refused))}", file=sys.stderr)  # the verdict is the one JSON object on standard output
    return refused.exit_code


def _show(out: Console, verdict: dict[str, Any]) -> None:
    rows = [(row["check"], row["state"], row["detail"]) for row in verdict["checks"]]
    title = "Refused" if not verdict["ok"] else "Verified" if verdict["signed_by"] else "Verified, not signed"
    out.print(table(title, ("check", "", "found"), rows, whole=("",)))
    if verdict["root"]:
        path_line(out, "root hash", verdict["root"])
