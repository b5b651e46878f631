"""`sfumato train-classifier`: from private images to a classifier that may be published."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.confirm import approval
from sfumato.cli.lines import display
from sfumato.cli.released import crossings, quietly
from sfumato.cli.show import Answer, names, pairs, path_line, warned
from sfumato.cli.synthesize import Data, Device, Resume, Sign, Signer, alone
from sfumato.errors import InputError
from sfumato.run.progress import Silent

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.flow.request import Request

Network = Annotated[
    str | None,
    typer.Option(metavar="scattering|cnn|features|linear", help="What is trained.", show_default="scattering"),
]
# Not --test, which names the real test set of `sfumato evaluate`: what is seen here is shown to anyone.
PublicTest = Annotated[
    str | None, typer.Option(metavar="DATA", help="Public images to test it on.", show_default=False)
]
PublicTestSplit = Annotated[str, typer.Option(metavar="NAME", help="The part of the public test images to read.")]
Provenance = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Where public and test images are from that are public.", show_default=False),
]
By = Annotated[
    str,
    typer.Option(metavar="dpsgd|pate", help="How: by noisy gradients, or by noisy votes of teachers on public images."),
]
Public = Annotated[
    str | None,
    typer.Option(metavar="DATA", help="Public images that --by pate asks about; made up without.", show_default=False),
]
Out = Annotated[str, typer.Option(metavar="DIR", help="The folder to write; it must be new or empty.")]
BESIDE = ("public_test", "public_test_split", "provenance")


def train_classifier(
    context: typer.Context,
    data: Data = None,
    by: By = "dpsgd",
    network: Network = None,
    recipe: options.Recipe = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    unit: options.Unit = None,
    private_count: options.PrivateCount = False,
    records: options.Records = None,
    size: options.Size = None,
    grey: options.Grey = False,
    split: options.Split = "train",
    label: options.Label = None,
    person: options.Person = None,
    set: options.Settings = None,
    public: Public = None,
    public_test: PublicTest = None,
    public_test_split: PublicTestSplit = "test",
    provenance: Provenance = None,
    seed: options.Seed = 0,
    device: Device = "auto",
    microbatch: options.Microbatch = 1024,
    ledger: options.Ledger = None,
    out: Out = "classifier",
    sign: Sign = None,
    signer: Signer = None,
    resume: Resume = None,
    yes: options.Yes = False,
    force: options.Force = False,
    config: options.Config = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> Answer | None:
    """Train a classifier on private images within a budget and write a folder that may be published."""
    from sfumato import api
    from sfumato.flow import request

    if provenance is not None and public_test is None and public is None:
        raise InputError(
            "A provenance goes with test images; add --public-test DATA or --public DATA, or leave it out."
        )
    how = options.Loudness(json, quiet, verbose)
    if resume is not None:
        alone(options.given(context), BESIDE)
        if request.follows():
            request.assist(None, resume)
            return None
        return resumed(resume, api.read_test(public_test, provenance, public_test_split), ledger, how)
    asked = _request(context.params, options.given(context), options.settings(set), unit)
    if request.follows():
        request.assist(asked, None)
        return None
    seen = api.read_test(public_test, provenance, public_test_split, size=size, grey=grey, label=label)

    def act(shown: Silent) -> tuple[Any, ...]:
        return asked, *api.carry_out_training(asked, seen, shown, approval(yes, force, how, shown))

    return _watched(act, how)


def resumed(run: str, seen: Any, ledger: str | None, how: options.Loudness) -> Answer:
    """Go on with a stopped run, and test on the public images `seen`; also for `sfumato runs RUN --resume`."""
    from sfumato import api

    return _watched(lambda shown: api.resume_training(run, seen, shown, ledger), how)


def _request(typed: dict[str, Any], given: list[str], settings: dict[str, str], unit: str | None) -> Request:
    """The request as typed, with the settings and the budget of a recipe where they were not."""
    from sfumato import api
    from sfumato.flow.request import CLASSIFIERS, Request

    _check_way(typed, CLASSIFIERS)
    if typed["recipe"] is not None:
        recipe = api.classifier_recipe(typed["recipe"])
        settings = recipe.texts() | settings
        typed = typed | {k: getattr(recipe, k) for k in ("epsilon", "delta") if k not in given}
    if typed["network"] is not None:
        if settings.get("network", typed["network"]) != typed["network"]:
            raise InputError("The network is given twice, and not the same; leave out --network.")
        settings = {**settings, "network": typed["network"]}
    for name, what in (("data", "DATA"), ("epsilon", "--epsilon E")):
        if typed[name] is None:
            raise InputError(f"Say what to train on and within which budget: {what} is missing (or --resume RUN).")
    options.check_unit(unit, typed["person"])
    if typed["public"] is None:
        typed = typed | {"provenance": None}  # that of test images, which are no part of the run
    kept = {f.name: typed[f.name] for f in fields(Request) if f.name in typed and f.name != "recipe"}
    return Request(**kept, method=CLASSIFIERS[typed["by"]], settings=settings)


def _check_way(typed: dict[str, Any], ways: dict[str, str]) -> None:
    """Refuse a way to train that there is not, and what goes with another one."""
    if typed["by"] not in ways:
        raise InputError(f"Expected --by as {' or '.join(ways)}, found '{typed['by']}'.")
    if typed["by"] != "dpsgd" and typed["recipe"] is not None:
        raise InputError("Recipes of classifiers are for --by dpsgd; leave out --recipe.")
    if typed["by"] != "pate" and typed["public"] is not None:
        raise InputError("Public images are for --by pate, which asks about them; leave out --public.")
    if typed["public"] is not None and typed["provenance"] is None:
        raise InputError("Public data and their provenance go together: give both --public DATA and --provenance TEXT.")


def _watched(act: Any, how: options.Loudness) -> Answer:
    progress = display(how.as_json, how)
    try:
        asked, classifier, accuracy = act(progress)
    finally:
        progress.close()
    return _told(classifier, asked.out, accuracy, how)


def _told(classifier: Any, folder: str, accuracy: float | None, how: options.Loudness) -> Answer:
    statement = classifier.statement
    guarantee = {key: statement["guarantee"][key] for key in ("epsilon", "delta", "relation", "unit", "mu", "summary")}
    facts = {
        "classifier": str(Path(folder).absolute()),
        "guarantee": guarantee | {"accountant": statement["accountant"]["name"]},
        "crossings": statement["mechanisms"]["events"],
        "settings": statement["declared_public"]["settings"],
        "classes": list(classifier.classes),
        "warnings": list(statement["deviations"]["warnings"]),
        "accuracy": accuracy,  # on public test images, at the last step; None where there are none
    }
    if how.quiet:
        return quietly(facts, facts["classifier"], how.as_json)
    words = statement["plain_words"]["summary"]
    return Answer(facts, lambda out: _show(out, facts, words, how.verbose), how.as_json)


def _show(out: Console, facts: dict[str, Any], plain_words: str, verbose: bool = False) -> None:
    event = facts["crossings"][0]
    rows = [
        ("guarantee", facts["guarantee"]["summary"]),
        ("", plain_words),
        ("network", f"{facts['settings']['network']}, {event['name']} {event['times']} times, {event['sampling']}"),
        ("classes", f"declared public: {names(facts['classes'])}"),
    ]
    if facts["accuracy"] is not None:
        rows.append(("accuracy", f"{facts['accuracy']:.2%} of the public test images, at the last step"))
    out.print(pairs(rows))
    if verbose:
        crossings(out, facts, facts["settings"])
    warned(out, facts["warnings"])
    path_line(out, "classifier", facts["classifier"])
