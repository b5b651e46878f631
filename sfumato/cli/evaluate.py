"""`sfumato evaluate`: how good a release is, measured against the real images."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.confirm import approval
from sfumato.cli.lines import display
from sfumato.cli.show import Answer, number, pairs, path_line, plain, table, warned
from sfumato.cli.synthesize import Device
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

Data = Annotated[str, typer.Option(metavar="DATA", help="The real images the release was made from.")]
Test = Annotated[str | None, typer.Option(metavar="DATA", help="A test set of its own; else DATA's test split.")]
Person = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column that says who is shown; intervals, and the unit, are then by person."
    ),
]
Protocol = Annotated[
    str, typer.Option(metavar="fixed|paper", help="Last step, or the best on the test set as in many papers.")
]
Classifiers = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="cnn, mlp, logreg, resnet, wrn, resnext, forest, boosting; with commas between.",
        show_default="cnn,mlp,logreg; all networks with CUDA",
    ),
]
Metrics = Annotated[
    str | None, typer.Option(metavar="NAMES", help="utility, fidelity, attacks; with commas.", show_default="all")
]
Features = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Feature spaces for fidelity, with commas.", show_default=False)
]
Attacks = Annotated[str | None, typer.Option(metavar="NAMES", help="Kinds of attack, with commas.", show_default=False)]
Weights = Annotated[
    list[str] | None,
    typer.Option(metavar="SPACE=FILE", help="Weights of a feature space; may be repeated.", show_default=False),
]
Seeds = Annotated[
    int | None, typer.Option(metavar="N", help="Times each classifier is trained.", show_default="3; 1 with --quick")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Usefulness alone, by two classifiers: under a minute on two cores.")
]
Full = Annotated[bool, typer.Option("--full", help="All of it, however long; the default with CUDA.")]
Groups = Annotated[str | None, typer.Option(metavar="COLUMN", help="A column that names subgroups of the test set.")]
Reference = Annotated[bool, typer.Option("--reference", help="Also train a DC-GAN without privacy, to compare with.")]
TestSplit = Annotated[str, typer.Option(metavar="NAME", help="The part of the data to test on.")]
Out = Annotated[str | None, typer.Option(metavar="DIR", help="The folder to write.", show_default="RELEASE-evaluation")]
Publish = Annotated[
    float | None,
    typer.Option(
        "--publish-accuracy",
        metavar="EPSILON",
        callback=options.epsilon_in_range,
        show_default=False,
        help="Only release a noisy accuracy, charged to the test set, into RELEASE-accuracy.",
    ),
]
MOST_RECALLS = 10
WITH_PUBLISH = {
    "release",
    "data",
    "test",
    "publish_accuracy",
    "delta",
    "relation",
    "person",
    "test_split",
    "label",
    "device",
    "out",
    "ledger",
    "yes",
    "json",
}
ONLY_WITH_PUBLISH = {"delta", "relation", "yes"}


def evaluate(
    context: typer.Context,
    release: options.Release,
    data: Data,
    test: Test = None,
    protocol: Protocol = "fixed",
    classifiers: Classifiers = None,
    metrics: Metrics = None,
    features: Features = None,
    weights: Weights = None,
    attacks: Attacks = None,
    seeds: Seeds = None,
    quick: Quick = False,
    full: Full = False,
    groups: Groups = None,
    reference: Reference = False,
    split: options.Split = "train",
    test_split: TestSplit = "test",
    label: options.Label = None,
    person: Person = None,
    device: Device = "auto",
    ledger: options.Ledger = None,
    out: Out = None,
    publish_accuracy: Publish = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    yes: options.Yes = False,
    json: options.Json = False,
) -> Answer:
    """Measure a release, of images or of a classifier, against real images.

    The result is internal: it is written beside the release, not into it.
    """
    from sfumato import api

    _check_together(publish_accuracy is not None, set(options.given(context)))
    if quick and full:
        raise InputError("--quick and --full contradict each other; leave one out.")
    api.release_folder(release)
    for source in (data, test):
        api.must_exist(source)
    progress = display(json)
    try:
        if publish_accuracy is not None:
            published = api.publish_accuracy(
                release,
                data,
                publish_accuracy,
                out,
                ledger=ledger,
                test=test,
                delta=delta,
                relation=relation,
                test_split=test_split,
                label=label,
                person=person,
                device=device,
                progress=progress,
                approval=approval(yes, False, options.Loudness(json), progress),
            )
            return Answer(published, lambda console: _show_published(console, published), json)
        report = api.evaluate(
            release,
            data,
            test=test,
            protocol=protocol,
            classifiers=_listed(classifiers),
            metrics=_listed(metrics),
            seeds=seeds,
            device=device,
            out=out,
            groups=groups,
            person=person,
            effort="quick" if quick else "full" if full else "default",
            reference=reference,
            progress=progress,
            split=split,
            test_split=test_split,
            label=label,
            features=_listed(features),
            attacks=_listed(attacks),
            weights=options.settings(weights),
            ledger=ledger,
            command=_command(context),
        )
    finally:
        progress.close()
    place = Path(out) if out else Path(f"{Path(release).resolve()}-evaluation")
    evaluation = report.to_json() | {"out": str(place.absolute())}
    return Answer(evaluation, lambda console: _show(console, evaluation), json)


def _command(context: typer.Context) -> str:
    """The command as typed, for whoever wants to repeat it."""
    words = ["sfumato", "evaluate", str(context.params["release"])]
    for name in options.given(context):
        value = context.params[name]
        if name not in ("release", "json"):
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [options.flag(name)] if one is True else [options.flag(name), str(one)]
    return shlex.join(words)


def _check_together(publishing: bool, given: set[str]) -> None:
    if publishing and (extra := sorted(given - WITH_PUBLISH)):
        raise InputError(f"--publish-accuracy releases one number and takes no {options.flag(extra[0])}; leave it out.")
    if not publishing and (lonely := sorted(given & ONLY_WITH_PUBLISH)):
        raise InputError(f"{options.flag(lonely[0])} belongs to a released accuracy; give --publish-accuracy EPSILON.")


def _listed(text: str | None) -> list[str] | None:
    """Names with commas between, as a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _show(out: Console, evaluation: dict[str, Any]) -> None:
    sections = evaluation["sections"]
    for sentence in sections["touched"]:
        out.print(plain(sentence))
    if sections["headline"] is not None:
        out.print(pairs(_headline(sections["headline"])))
        _show_utility(out, sections["utility"])
    for name, show in (("fidelity", _show_fidelity), ("attacks", _show_attacks)):
        if name in sections:
            why = sections[name].get("skipped")
            out.print(f"{name}: {plain(why)}") if isinstance(why, str) else show(out, sections[name])
    if sections["left_out"]:
        *gaps, way = sections["left_out"]
        out.print(plain(f"Left out to be quick: {'; '.join(gaps)}. {way}"))
    warned(out, sections["data"]["warnings"])
    path_line(out, "numbers", str(Path(evaluation["out"]) / "evaluation.json"))
    path_line(out, "report", str(Path(evaluation["out"]) / "report.html"))


def _headline(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers to judge usefulness by, first of all against the trivial answer."""
    known = [(name, value) for name, value in found["recall"].items() if value is not None]
    few = sorted(known, key=lambda pair: pair[1])[:3] if len(known) > MOST_RECALLS else known
    error = f"± {100 * found['test_error']:.1f} points for the number of test images"
    area = f"; AUROC {number(found['auroc']['mean'])} (guessing: 0.5)" if found["auroc"] else ""
    rows = [
        ("accuracy", f"{found['accuracy']['mean']:.1%} by {found['classifier']}, {error}"),
        ("verdict", found["verdict"]),
        ("balanced", f"{found['balanced']['mean']:.1%} (guessing: {found['baseline']['guessing']:.1%}){area}"),
        ("recall", ", ".join(f"{name} {value:.1%}" for name, value in few) + (" (the least)" if few != known else "")),
    ]
    if found["real"] is not None:
        rows.append(("real", f"{found['real']:.1%} by {found['real_classifier']} trained on the real images"))
    if found["images"] is not None:
        rows.append(("images", f"{found['images']:,}, of which {found['distinct']:,} are distinct"))
    return rows


def _show_utility(out: Console, utility: dict[str, Any]) -> None:
    if "synthetic" not in utility:
        return  # of a classifier, of which all was told
    synthetic = utility["synthetic"]
    real = utility["real"]
    reference = utility["reference"]
    several = synthetic["looks"] > 1
    columns = ("classifier", "synthetic", *(("best of 8*",) if several else ()), "balanced", "AUROC", "real")
    rows = [
        (
            name,
            _short(row["fixed"]),
            *((_short(row["paper"]),) if several else ()),
            f"{row['balanced']['mean']:.4f}",
            f"{row['auroc']['mean']:.4f}" if row["auroc"] else "",
            _short(real["classifiers"][name]["accuracy"]),
            *((_short(reference["classifiers"][name]["accuracy"]),) if reference else ()),
        )
        for name, row in synthetic["classifiers"].items()
    ]
    columns = (*columns, *(("DC-GAN",) if reference else ()))
    out.print(table("Accuracy on real test images", columns, rows, whole=("classifier",)))
    if several:
        out.print("* selection on the test set, as in many papers; optimistic")
    top = synthetic["max"]
    mean = synthetic["mean"]
    out.print(pairs([("largest", f"{_measured(top)} ({top['name']})"), ("mean", _measured(mean))]))


def _show_fidelity(out: Console, section: dict[str, Any]) -> None:
    shown = [(plain(name), _measured(value)) for name, value in section["values"].items()]
    out.print(table(f"Fidelity against {section['against']}", ("measure", "value"), shown, whole=("measure",)))
    for name, why in (section["skipped"] or {}).items():
        out.print(f"{plain(name)}: {plain(why)}")


def _show_attacks(out: Console, section: dict[str, Any]) -> None:
    shown = [(name, _area(row), plain(row["verdict"])) for name, row in section["attacks"].items()]
    out.print(table("Membership attacks", ("attack", "AUC", "verdict"), shown, whole=("attack",)))
    if section["warning"]:
        out.print(plain(section["warning"]))


def _area(row: dict[str, Any]) -> str:
    return _measured(row["auc"]) if isinstance(row.get("auc"), dict) else number(row.get("auc"))


def _short(value: dict[str, Any]) -> str:
    """A share with half the width of its interval."""
    spread = f" ± {(value['high'] - value['low']) / 2:.4f}" if len(value["values"]) > 1 else ""
    return f"{value['mean']:.4f}{spread}"


def _measured(value: dict[str, Any]) -> str:
    """A number with its interval; one seed has none."""
    if len(value["values"]) == 1:
        return number(value["mean"])
    return f"{number(value['mean'])} [{number(value['low'])}, {number(value['high'])}]"


def _show_published(out: Console, published: dict[str, Any]) -> None:
    value = f"{number(published['accuracy'])} [{number(published['low'])}, {number(published['high'])}]"
    out.print(pairs([("accuracy", value), ("", published["classifier"]), ("guarantee", published["guarantee"])]))
    path_line(out, "written to", published["out"])
