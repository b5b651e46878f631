"""`sfumato studio`: a local page for custodians."""

from __future__ import annotations

import json as json_lines
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.errors import extra

Folder = Annotated[str | None, typer.Option(metavar="DIR", help="Where releases lie.", show_default="here")]
Root = Annotated[
    list[str] | None,
    typer.Option(metavar="DIR", help="A folder that data may lie in; may be repeated.", show_default="the folder"),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; beyond loopback with a password alone.")]
Port = Annotated[int, typer.Option(metavar="N", help="The port; 0 takes a free one.")]
Socket = Annotated[str | None, typer.Option(metavar="PATH", help="Listen on a Unix socket in place of a port.")]
PasswordFile = Annotated[str | None, typer.Option(metavar="FILE", help="A password in a file of mode 0600.")]
Approval = Annotated[str, typer.Option(metavar="one|two", help="How many custodians must confirm a price.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where runs compute.")]
Demo = Annotated[bool, typer.Option("--demo", help="Public sets and a throw-away ledger, to look around.")]


def studio(
    folder: Folder = None,
    root: Root = None,
    ledger: options.Ledger = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    socket: Socket = None,
    password_file: PasswordFile = None,
    approval: Approval = "one",
    device: Device = "auto",
    demo: Demo = False,
    json: options.Json = False,
) -> None:
    """Plan, approve, watch, look, compare and publish in a browser, on this machine alone unless told otherwise."""
    for package in ("fastapi", "uvicorn", "python_multipart"):
        extra(package, "studio")
    from sfumato.studio.settings import set_up

    settings = set_up(
        folder,
        tuple(root or ()),
        ledger=ledger,
        host=host,
        port=port,
        socket=socket,
        password_file=password_file,
        approval=approval,
        device=device,
        demo=demo,
    )
    from sfumato.studio.server import serve  # slow; what is wrong is said before

    serve(settings, lambda links: _tell(links, json))


def _tell(links: list[tuple[str, str]], as_json: bool) -> None:
    """On standard output; each link opens one session and is dead afterwards."""
    if as_json:
        print(json_lines.dumps({"links": [{"role": role, "link": link} for role, link in links]}), flush=True)
        return
    for role, link in links:
        print(f"{role:9}  {link}", flush=True)
    print("Each link works once; kill -USR1 gives new ones, Ctrl-C ends the studio (runs go on).", flush=True)
