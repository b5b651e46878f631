"""`sfumato publish`: a checked release, sent whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, pairs, path_line, table, warned

if TYPE_CHECKING:
    from rich.console import Console

To = Annotated[
    str,
    typer.Option(
        metavar="hf:NAME|folder:PATH|zip:PATH", help="Where to: a hub, a copy, or one file.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")]
Key = Annotated[
    str | None,
    typer.Option(metavar="PUBLIC", help="Ask for a signature by this key, as verify does.", show_default=False),
]
Private = Annotated[bool, typer.Option("--private", help="On a hub: seen by its owner alone at first.")]


def publish(
    release: options.Release,
    to: To,
    dry_run: DryRun = False,
    key: Key = None,
    private: Private = False,
    json: options.Json = False,
) -> Answer:
    """Check a release and send it: what was sealed and its licence, and nothing else that lies in the folder."""
    from sfumato import api

    api.release_folder(release)
    facts = api.publish(release, to, dry_run=dry_run, public_key=key, private=private)
    return Answer(facts, lambda out: _show(out, facts), json)


def _show(out: Console, facts: dict[str, Any]) -> None:
    title = "Sent" if facts["sent"] else "Would be sent (nothing was)"
    rows = [(part["name"], f"{part['files']:,}", f"{part['bytes']:,}") for part in facts["parts"]]
    out.print(table(title, ("what", "files", "bytes"), rows))
    out.print(
        pairs(
            [
                ("in all", f"{facts['files']:,} files, {facts['bytes']:,} bytes"),
                ("signature", f"by the key {facts['signed_by']}" if facts["signed_by"] else "not signed"),
                *([("left behind", ", ".join(facts["left_behind"]))] if facts["left_behind"] else []),
            ]
        )
    )
    warned(out, facts["warnings"])
    path_line(out, "root hash", facts["root"])
    path_line(out, "to", facts.get("address", facts["to"]))
