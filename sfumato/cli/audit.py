"""`sfumato audit`: seeded faults, methods and releases put to the test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, number, one_line, pairs, path_line, plain, table
from sfumato.errors import AuditFailed, InputError

if TYPE_CHECKING:
    from rich.console import Console

OF_METHOD = ("recipe", "level", "epsilon", "delta", "relation", "unit", "labels", "set", "device", "picture")
EPSILON = 4.0  # where distinguishing tests need few draws
WHAT = "--gallery, --method NAME, or RELEASE with --members DIR --nonmembers DIR"

Release = Annotated[str | None, typer.Argument(metavar="[RELEASE]", help="A release folder.", show_default=False)]
Gallery = Annotated[bool, typer.Option("--gallery", help="Show that the auditors catch every seeded fault.")]
Level = Annotated[
    int,
    typer.Option(
        metavar="0|1|2", help="0: seconds; 1: a distinguishing test of each noisy query; 2: of the whole plan too."
    ),
]
Audited = Annotated[
    str | None, typer.Option("--method", metavar="NAME", help="See `sfumato methods`.", show_default=False)
]
Picture = Annotated[str | None, typer.Option(metavar="FILE.png", help="Draw measured against claimed (level 1 or 2).")]
Members = Annotated[str | None, typer.Option(metavar="DATA", help="Records that were behind the release.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute, as the run would.")]
OfPerson = Annotated[str, typer.Option(metavar="record|person", help="Whose presence is hidden.")]
Nonmembers = Annotated[str | None, typer.Option(metavar="DATA", help="Records of the same kind that were not.")]


def audit(
    context: typer.Context,
    release: Release = None,
    gallery: Gallery = False,
    method: Audited = None,
    recipe: options.Recipe = None,
    level: Level = 0,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    unit: OfPerson = "record",
    labels: options.Labels = "uniform",
    set: options.Settings = None,
    device: Device = "cpu",
    picture: Picture = None,
    members: Members = None,
    nonmembers: Nonmembers = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> Answer:
    """Try to refute a privacy claim: of every seeded fault, of a method on made-up records, or of a release.

    A pass says that nothing was found. What fails ends with exit status 4.
    """
    named = method is not None or recipe is not None
    if sum((gallery, named, release is not None)) != 1:
        raise InputError(f"Say what to audit, and one thing only: {WHAT}.")
    _check_options(options.given(context), "gallery" if gallery else "method" if named else "release")
    if gallery:
        return _gallery(seed, json)
    if named:
        return _method(_asked(context, options.settings(set)))
    return _release(str(release), members, nonmembers, seed, json)


def _check_options(given: list[str], what: str) -> None:
    belongs = {"gallery": (), "method": OF_METHOD, "release": ("members", "nonmembers")}
    for name in (*OF_METHOD, "members", "nonmembers"):
        if name in given and name not in belongs[what]:
            other = "RELEASE" if what == "release" else f"--{what}"
            raise InputError(f"--{name} does not go with {other}; leave it out.")


def _ended(answer: Answer, failure: str | None) -> Answer:
    """The answer; where the audit failed it is printed first, and the command ends with its own status."""
    if failure is None:
        return answer
    answer.give()
    typer.echo(f"error: {one_line(failure)}", err=True)
    raise typer.Exit(AuditFailed.exit_code)


def _gallery(seed: int, json: bool) -> Answer:
    from sfumato import api

    rows = api.audit_gallery(seed=seed)
    wrong = [row["id"] for row in rows if not row["ok"]]
    answer = Answer(rows, lambda out: _show_gallery(out, rows), json)
    return _ended(answer, f"The auditors were wrong about {', '.join(wrong)}." if wrong else None)


def _show_gallery(out: Console, rows: list[dict[str, Any]]) -> None:
    lines = [
        (row["id"], row["name"], row["verdict"], row["twin"], "ok" if row["ok"] else "WRONG", row["detail"])
        for row in rows
    ]
    out.print(
        table("Seeded faults and their controls", ("id", "fault", "verdict", "control", "", "what decided"), lines)
    )
    caught = sum(row["expected"] == "caught" and row["ok"] for row in rows)
    planted = sum(row["expected"] == "caught" for row in rows)
    passed = sum(row["expected"] == "pass" and row["ok"] for row in rows)
    out.print(f"{caught} of {planted} seeded faults caught, {passed} of {len(rows) - planted} sound oddities passed.")


def _asked(context: typer.Context, settings: dict[str, str]) -> dict[str, Any]:
    """The options as typed, with what a recipe says where they were not."""
    from sfumato.flow import request

    given = options.given(context)
    asked = request.typed(context.params, given, settings)
    if asked["level"] not in (0, 1, 2):
        raise InputError(f"Expected --level 0, 1 or 2, found {asked['level']}.")
    if asked["picture"] is not None and asked["level"] == 0:
        raise InputError("--picture shows a distinguishing test; add --level 1 or --level 2.")
    return asked | {"epsilon": asked["epsilon"] or EPSILON}


def _method(asked: dict[str, Any]) -> Answer:
    from sfumato import api
    from sfumato.flow import request

    name = asked["method"]
    picture = asked["picture"]
    spec = request.made_up(asked["unit"], asked["recipe"])
    budget = api.make_budget(asked["epsilon"], asked["delta"], asked["relation"], asked["unit"])
    asked = asked | {"labels": request.labels_for(asked["labels"], spec, budget)}
    method = api.make_method(name, asked["settings"], asked["labels"], spec.classes)
    report = api.audit_method(
        method, spec=spec, budget=budget, level=asked["level"], seed=asked["seed"], device=asked["device"]
    )
    findings = report.to_json() | {"audited": _audited(asked, spec, report.device)}
    if picture is not None:
        _write(picture, report.picture())
        findings["picture"] = str(Path(picture).absolute())
    answer = Answer(findings, lambda out: _show_method(out, findings), asked["json"])
    failed = [row for row in findings["rows"] if row["verdict"] == "fail"]
    failure = f"The audit of {name} failed: {failed[0]['check']}, {failed[0]['detail']}." if failed else None
    return _ended(answer, failure)


def _audited(asked: dict[str, Any], spec: Any, device: str) -> dict[str, Any]:
    """Of which runs the report speaks."""
    kind = asked["labels"] if asked["labels"].startswith(("uniform", "private:")) else "declared"
    told = {
        key: asked[key] for key in ("method", "recipe", "settings", "level", "epsilon", "delta", "relation", "unit")
    }
    size = {"records": spec.records, "shape": list(spec.shape), "classes": len(spec.classes)}
    return told | {"labels": kind, "device": device, "seed": asked["seed"]} | size


def _write(picture: str, png: bytes | None) -> None:
    try:
        Path(picture).write_bytes(png or b"")
    except OSError as error:
        raise InputError(f"{picture} cannot be written ({error.strerror}); choose another --picture.") from error


def _show_method(out: Console, findings: dict[str, Any]) -> None:
    rows = [(row["check"], str(row["level"]), row["verdict"], row["detail"]) for row in findings["rows"]]
    out.print(table(f"Audit of {findings['title']}, on made-up records", ("check", "level", "verdict", "detail"), rows))
    told = findings["audited"]
    out.print(
        pairs(
            [
                (
                    "audited",
                    f"{told['relation']}, per {told['unit']}, labels {told['labels']}, "
                    f"epsilon {number(told['epsilon'])} at delta {number(told['delta'])}",
                ),
                ("settings", plain(", ".join(f"{k}={v}" for k, v in told["settings"].items()) or "the defaults")),
                (
                    "made up as",
                    f"{told['records']:,} {told['unit']}s, {'x'.join(map(str, told['shape']))}, "
                    f"{told['classes']} classes",
                ),
                ("device", told["device"]),
                ("verdict", findings["verdict"]),
            ]
        )
    )
    if "picture" in findings:
        path_line(out, "picture", findings["picture"])


def _release(release: str, members: str | None, nonmembers: str | None, seed: int, json: bool) -> Answer:
    from sfumato import api

    if members is None or nonmembers is None:
        raise InputError("An attack on a release needs both --members DATA and --nonmembers DATA.")
    api.release_folder(release)
    for source in (members, nonmembers):
        api.must_exist(source)
    typer.echo("This attack reads private records; its result is internal and is not for publication.", err=True)
    outcome = api.audit_release(release, members, nonmembers, seed=seed)
    answer = Answer(outcome, lambda out: _show_release(out, outcome), json)
    bad = [row for row in outcome["rows"] if not row["ok"]]
    beyond = f"{bad[0]['measure']} of {number(bad[0]['value'])} is more than the stated guarantee allows" if bad else ""
    return _ended(answer, f"The attack on {release} succeeded: {beyond}." if bad else None)


def _show_release(out: Console, outcome: dict[str, Any]) -> None:
    rows = [
        (
            row["measure"],
            number(row["value"]),
            " to ".join(number(end) for end in row["interval"] if end is not None),
            "" if row["ceiling"] is None else number(row["ceiling"]),
            "ok" if row["ok"] else "beyond",
        )
        for row in outcome["rows"]
    ]
    out.print(table(outcome["attack"], ("measure", "value", "95 % interval", "upper bound", ""), rows))
    claim = outcome["claim"]
    out.print(
        pairs(
            [
                ("claim", f"epsilon {number(claim['epsilon'])} at delta {number(claim['delta'])}"),
                ("epsilon", f"at least {number(outcome['epsilon_lower'])}, without assumptions"),
                (
                    "candidates",
                    f"{outcome['members']:,} members, {outcome['nonmembers']:,} others, {outcome['samples']:,} samples",
                ),
                ("verdict", outcome["verdict"]),
                ("note", outcome["note"]),
                ("limitation", outcome["caveat"]),
            ]
        )
    )
