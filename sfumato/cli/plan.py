"""`sfumato plan`: the guarantee and its price, before a record is read."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import confirm, options
from sfumato.cli.show import Answer, at_most, names, number, pairs, plain, table, warned
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.flow.request import Request

MOST_RECORDS = 10**12
MOST_CLASSES = 10_000
LARGEST_SIDE = 4096
DESCRIBE = "--records N --shape 1x28x28 --classes 10"
OF_FILES = ("size", "grey", "split", "label", "person", "count", "ledger")

Data = Annotated[str | None, typer.Argument(metavar="[DATA]", help="A folder, file or named set.", show_default=False)]
Shape = Annotated[str | None, typer.Option(metavar="CxHxW", help="Image shape, such as 1x28x28, without files.")]
Classes = Annotated[int | None, typer.Option(metavar="N", help="Number of classes, without files.")]

Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where the run would compute.")]
Explain = Annotated[bool, typer.Option("--explain", help="Say in sentences what is asked, what it costs, and why.")]


def plan(
    context: typer.Context,
    data: Data = None,
    method: options.MethodName = None,
    recipe: options.Recipe = None,
    epsilon: options.Epsilon = None,
    records: options.Records = None,
    shape: Shape = None,
    classes: Classes = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    unit: options.Unit = None,
    private_count: options.PrivateCount = False,
    labels: options.Labels = "auto",
    size: options.Size = None,
    grey: options.Grey = False,
    split: options.Split = "train",
    label: options.Label = None,
    person: options.Person = None,
    set: options.Settings = None,
    count: options.Count = 10_000,
    device: Device = "auto",
    microbatch: options.Microbatch = 1024,
    ledger: options.Ledger = None,
    explain: Explain = False,
    json: options.Json = False,
) -> Answer:
    """Show what a run would ask of the data, the guarantee it would give, its cost and its time. Spends nothing.

    Give DATA, or describe data that need not exist with --records, --shape and --classes; a recipe describes its own.
    """
    from sfumato import api
    from sfumato.flow import request

    typed = request.typed(context.params, options.given(context), options.settings(set))
    asked = _request(typed)
    api.must_exist(data)
    api.make_budget(asked.epsilon, asked.delta, relation)
    api.make_method(asked.method, asked.settings)
    if data is None and recipe is not None:
        records, shape, classes = request.described(recipe, records, shape, classes)
    if data is None:
        described = _check_description(records, shape, classes, options.given(context))
        spec = request.describe(*described, unit=unit or "record", private_count=private_count)
        made = request.plan_for(asked, spec)
        plan_json = made.to_json()
    else:
        _check_data(shape, classes)
        options.check_unit(unit, person)
        made, told = request.proposed(asked)
        plan_json = made.to_json() | {"proposal": told.to_json()}
    if explain:
        plan_json["explanation"] = request.explained(asked, made)
    return Answer(plan_json, lambda out: _show(out, plan_json), json)


def _request(typed: dict[str, Any]) -> Request:
    from sfumato.flow.request import Request

    if typed["epsilon"] is None:
        raise InputError("Say what to plan: --epsilon E is missing (or give --recipe NAME).")
    known = {f.name for f in fields(Request)}
    return Request(**{k: v for k, v in typed.items() if k in known and k != "data"}, data=typed["data"] or "described")


def _check_data(shape: str | None, classes: int | None) -> None:
    if shape is not None or classes is not None:
        raise InputError(f"Give either DATA or a description ({DESCRIBE}), not both.")


def _check_description(
    records: int | None, shape: str | None, classes: int | None, given: list[str]
) -> tuple[int, str, int]:
    """The description; one with a part missing or with numbers that no image set has is refused."""
    if records is None and shape is None and classes is None:
        raise InputError(f"Say which data to plan for: give DATA, or {DESCRIBE}.")
    if records is None or shape is None or classes is None:
        raise InputError(f"A description needs all of {DESCRIBE}; give the missing ones, or DATA instead.")
    if misplaced := [name for name in OF_FILES if name in given]:
        raise InputError(f"{options.flag(misplaced[0])} is about files; it goes with DATA.")
    for name, value, most in (("records", records, MOST_RECORDS), ("classes", classes, MOST_CLASSES)):
        if not 1 <= value <= most:
            raise InputError(f"Expected --{name} from 1 to {most}, found {value}.")
    if any(_too_long(side.strip()) for side in shape.lower().split("x")):
        raise InputError(f"Expected --shape with sides of at most {LARGEST_SIDE}, found {shape[:40]}.")
    return records, shape, classes


def _too_long(side: str) -> bool:
    return side.isdecimal() and (len(side) > 9 or int(side) > LARGEST_SIDE)


def _show(out: Console, plan_json: dict[str, Any]) -> None:
    from rich import box
    from rich.panel import Panel
    from rich.text import Text

    if "proposal" in plan_json:
        confirm.show(out, plan_json["proposal"], "What would be done, nothing is spent")
    title = Text(f"Plan: {plan_json['method']}, nothing is spent")
    out.print(Panel(pairs(_facts(plan_json)), title=title, title_align="left", box=box.ROUNDED))
    columns = ("crossing", "mechanism", "sigma", "sensitivity", "multiplier", "sampling", "times")
    out.print(table("What crosses the barrier", columns, [_crossing(c) for c in plan_json["crossings"]]))
    if "proposal" not in plan_json:
        warned(out, plan_json["warnings"])
    for section in plan_json.get("explanation", ()):
        _show_section(out, section)


def _show_section(out: Console, section: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out.print(Text(f"\n{section['title']}", "bold"))
    for sentence in section["sentences"]:
        out.print(Padding(Text(plain(sentence)), (0, 0, 0, 2)))
    if section["table"]:
        rows = [[_cell(value) for value in row.values()] for row in section["table"]]
        out.print(Padding(table("", list(section["table"][0]), rows), (0, 0, 0, 2)))


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else number(value)


def _facts(plan_json: dict[str, Any]) -> list[tuple[str, str]]:
    data = plan_json["data"]
    given = plan_json["guarantee"]
    second = plan_json["second_opinion"]
    paper = plan_json["paper"]
    things = "persons" if data["unit"] == "person" else "records"
    kind = "public" if data["count_public"] else "declared; the true one stays private"
    mu = "" if given["mu"] is None else f", mu {number(given['mu'])}"
    facts = [
        ("data", f"{data['name']}: {data['records']:,} {things} (count {kind}), {'x'.join(map(str, data['shape']))}"),
        ("classes", f"declared public: {names(data['classes'])}"),
        (
            "guarantee",
            f"epsilon {at_most(given['epsilon'])} at delta {number(given['delta'])}, {given['relation']}, "
            f"per {given['unit']}",
        ),
        ("accountant", f"{given['accountant']}{mu}"),
        ("second opinion", f"epsilon {at_most(second['epsilon'])} by {second['accountant']}"),
        ("labels", str(plan_json["labels"]["kind"])),
        ("settings", ", ".join(f"{name}={value}" for name, value in plan_json["settings"].items())),
    ]
    return [*facts, ("paper", f"epsilon {at_most(paper['epsilon'])}; {paper['note']}")] if paper else facts


def _crossing(c: dict[str, Any]) -> tuple[str, ...]:
    figures = (number(c["sigma"]), number(c["sensitivity"]), number(c["multiplier"]))
    return (c["name"], c["mechanism"], *figures, c["sampling"], str(c["times"]))
