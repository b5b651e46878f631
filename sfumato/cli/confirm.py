"""The screen before a run: what will be done with the data, what it costs, and a question."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sfumato.cli.options import Loudness
from sfumato.cli.show import console, pairs, plain
from sfumato.run.progress import Silent

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.flow.approval import Approval

QUESTION = "Spend it? Type yes: "


def approval(yes: bool, force: bool, how: Loudness, progress: Silent) -> Approval:
    """Asks on a terminal; without one a run goes on unless there is something serious to heed."""
    from sfumato import api

    def ask(proposal: Any) -> bool:
        progress.close()  # a bar would write over the question
        out = console(stderr=True)
        show(out, proposal.to_json(), "Before anything is spent")
        return _answered() in ("y", "yes")

    asks = attended() and not how.as_json and not how.quiet
    made: Approval = api.Approval(yes, force, ask if asks else None)
    return made


def attended() -> bool:
    """Whether somebody sees the question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _answered() -> str:
    sys.stderr.write(QUESTION)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()


def show(out: Console, told: dict[str, Any], title: str) -> None:
    """A proposal, with what is to be heeded below it; what is serious comes first and in red."""
    from rich import box
    from rich.panel import Panel
    from rich.text import Text

    rows = [(row["name"], row["text"]) for row in told["rows"]]
    out.print(Panel(pairs(rows), title=Text(title), title_align="left", box=box.ROUNDED))
    if told["hopeless"]:
        out.print(Text(f"hopeless: {plain(told['hopeless'])}; refused without --force.", "bold red"))
    for warning in sorted(told["warnings"], key=lambda warning: not warning["serious"]):
        style, name = ("bold red", "serious") if warning["serious"] else ("yellow", "warning")
        out.print(Text(f"{name}: {plain(warning['text'])}", style))
