"""The command line: one file a verb. Everything it does goes through `sfumato.api` and `sfumato.flow.request`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, NoReturn

import typer

from sfumato import __version__
from sfumato.cli.audit import audit
from sfumato.cli.bench import bench
from sfumato.cli.budget import budget
from sfumato.cli.compare import compare
from sfumato.cli.ending import ended
from sfumato.cli.evaluate import evaluate
from sfumato.cli.federate import federate
from sfumato.cli.keygen import keygen
from sfumato.cli.methods import methods
from sfumato.cli.plan import plan
from sfumato.cli.publish import publish
from sfumato.cli.recipes import recipes
from sfumato.cli.refit import refit
from sfumato.cli.runs import runs
from sfumato.cli.sample import sample
from sfumato.cli.studio import studio
from sfumato.cli.sweep import sweep
from sfumato.cli.synthesize import synthesize
from sfumato.cli.train_classifier import train_classifier
from sfumato.cli.tune import tune
from sfumato.cli.verify import verify

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="sfumato",
    help="Turn a sensitive image set into a synthetic one that may be published, under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    methods,
    recipes,
    plan,
    synthesize,
    refit,
    sample,
    train_classifier,
    tune,
    sweep,
    federate,
    budget,
    runs,
    audit,
    verify,
    publish,
    keygen,
    evaluate,
    compare,
    bench,
    studio,
)
for verb in VERBS:
    app.command()(verb)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _sfumato(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Options of the command itself."""


def run(argv: Sequence[str]) -> int:
    """Carry out one command line and return its exit status; nothing is raised."""
    command = typer.main.get_command(app)
    verb = next((word for word in argv if not word.startswith("-")), "")
    act = partial(command.main, list(argv), prog_name="sfumato", standalone_mode=False)
    debug = not {"--verbose", "-v"}.isdisjoint(argv)
    return ended(act, as_json="--json" in argv, verb=verb, debug=debug)


def main() -> NoReturn:
    """The command `sfumato`."""
    sys.exit(run(sys.argv[1:]))
