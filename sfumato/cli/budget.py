"""`sfumato budget`: what may be spent on a data set, what is spent, and by which runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, at_least, at_most, number, pairs, plain, table
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.api import Budget


def _total(value: float | None) -> float | None:
    if value is not None and not 0 < value <= 1e6:
        raise InputError(f"Expected --total above 0 and at most 1000000, found {value}.")
    return value


Data = Annotated[str, typer.Argument(metavar="DATA", help="A folder, file or named set.", show_default=False)]
Total = Annotated[
    float | None, typer.Option(metavar="EPSILON", callback=_total, help="Grant this much in all, as the custodian.")
]

STATUS = {
    "committed": "finished",
    "begun": "unfinished (charged)",
    "reserved": "unfinished (charged)",
    "returned": "returned (not charged)",
}
THROW_AWAY = "This set is public: its ledger is thrown away after each run, unless one is named with --ledger FILE."


def budget(
    context: typer.Context,
    data: Data,
    total: Total = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    unit: options.Unit = None,
    person: options.Person = None,
    split: options.Split = "train",
    label: options.Label = None,
    size: options.Size = None,
    grey: options.Grey = False,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> Answer:
    """Show the privacy account of a data set with the history of its runs; --total sets what is granted."""
    from sfumato import api

    unit = options.check_unit(unit, person)
    if total is None and (lonely := [name for name in ("delta", "relation") if name in options.given(context)]):
        raise InputError(f"{options.flag(lonely[0])} says how a total is meant; give --total EPSILON with it.")
    grant: Budget | None = None if total is None else api.make_budget(total, delta, relation, unit)
    account = api.budget_of(
        data, total=grant, ledger=ledger, person=person, split=split, label=label, size=size, grey=grey
    )
    return Answer(account, lambda out: _show(out, account), json)


def _show(out: Console, account: dict[str, Any]) -> None:
    out.print(pairs(_facts(account)))
    if account["history"]:
        columns = ("when", "run", "method", "epsilon", "status")
        out.print(table("Runs", columns, [_run(run, account["total"]) for run in account["history"]], whole=("run",)))
    for other in account["others"]:
        out.print(
            f"These records or persons are also in the account {plain(other['account'])} with a total of "
            f"epsilon {number(other['total']['epsilon'])} {_meant(other['total'])}, of which "
            f"epsilon {at_least(other['remaining'])} remains."
        )
    if account["throw_away"]:
        out.print(THROW_AWAY)


def _facts(account: dict[str, Any]) -> list[tuple[str, str]]:
    total = account["total"]
    runs = sum(run["status"] != "returned" for run in account["history"])
    if total is None:
        return [
            ("account", account["account"]),
            ("total", "not set; the first run's budget will be it, or set --total"),
            ("spent", "nothing"),
        ]
    return [
        ("account", account["account"]),
        ("total", f"epsilon {number(total['epsilon'])} {_meant(total)}"),
        ("spent", f"epsilon {at_most(account['spent'])} by {runs} run{'s' * (runs != 1)}"),
        ("remaining", f"epsilon {at_least(account['remaining'])} for one more run"),
        ("mu", f"{number(account['mu'])} (of all runs together, as one Gaussian mechanism: N(0, 1) against N(mu, 1))"),
    ]


def _meant(total: dict[str, Any]) -> str:
    return f"at delta {number(total['delta'])}, {total['relation']}, per {total['unit']}"


def _run(run: dict[str, Any], total: dict[str, Any]) -> tuple[str, ...]:
    same = (run["delta"], run["relation"]) == (total["delta"], total["relation"])
    under = "" if same else f" at {number(run['delta'])}, {run['relation']}"
    when = str(run["time"]).replace("T", " ")[:16]
    return when, run["run"], run["method"], at_most(run["epsilon"]) + under, STATUS.get(run["status"], run["status"])
