"""A request from a form, and what its approval would mean. Made from public facts alone; no file of data is opened."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sfumato.flow.expected_time import in_words
from sfumato.flow.proposal import Proposal, cautions, guaranteed, hopeless
from sfumato.flow.request import Request, expected, explained, plan_for
from sfumato.release.statement.numbers import epsilon as shown
from sfumato.release.statement.numbers import one_in, show
from sfumato.types import DataSpec

PUBLISHED = "images with labels, the weights of their generator and the noisy measurement where there is one"


def proposal_of(
    request: Request, spec: DataSpec, account: dict[str, Any] | None = None, unused: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What a run would release, promise and cost: the screen of the command line, and what a page can draw.

    `account` is the custodian's view of the books, `unused` the columns that seem to say who is shown.
    """
    plan = plan_for(request, spec)
    facts = plan.to_json()
    made = f"{request.count:,} synthetic {PUBLISHED}"
    told = Proposal(plan, made, None, None, tuple(cautions(plan, unused)), hopeless(plan)).to_json()
    words = guaranteed(plan)[1]
    return {
        "rows": [*told["rows"], {"name": "device", "text": request.device}, *_cost(facts, account)],
        "guarantee": facts["guarantee"] | {"curve": facts["curve"]},
        "success": words["attacker_success"],
        "sentence": words["summary"],
        "shares": shares(facts),
        "warnings": told["warnings"] + _too_dear(facts, account),
        "hopeless": told["hopeless"],
        "explained": explained(request, plan),
        "command": request.command(),
        "python": python(request),
    }


def time_of(request: Request, spec: DataSpec) -> dict[str, str]:
    """How long it will take here, by a rehearsal on made-up records: a row for whoever approves."""
    return {"name": "time", "text": f"{in_words(expected(request, spec).seconds)}, by a rehearsal on made-up records"}


def _cost(facts: dict[str, Any], account: dict[str, Any] | None) -> list[dict[str, str]]:
    given = facts["guarantee"]
    price = f"epsilon {shown(given['epsilon'])} at delta {show(given['delta'])} ({one_in(given['delta'])})"
    rows = [{"name": "price", "text": f"{price}, on approval. A run that is stopped and resumed is charged once."}]
    if account is None:
        return rows
    if account["throw_away"]:
        return [*rows, {"name": "account", "text": "A public set: its ledger is thrown away after each run."}]
    left = account["remaining"]
    words = "No total is set: this run's price will be the total." if left is None else f"epsilon {show(left)} remains."
    return [*rows, {"name": "account", "text": words}]


def _too_dear(facts: dict[str, Any], account: dict[str, Any] | None) -> list[dict[str, Any]]:
    left = None if account is None or account["throw_away"] else account["remaining"]
    if left is None or facts["guarantee"]["epsilon"] <= left * (1 + 1e-9):
        return []
    words = f"The account has epsilon {show(left)} left for one more run: this one would be refused, at no cost."
    return [{"text": words, "serious": True}]


def shares(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The part of each crossing in the whole signal, for a picture: uses times (sampling rate / noise multiplier)^2."""
    rates = {c["name"]: event.get("rate", 1.0) for c, event in zip(facts["crossings"], facts["events"], strict=False)}
    signal = {c["name"]: c["times"] * (rates.get(c["name"], 1.0) / c["multiplier"]) ** 2 for c in facts["crossings"]}
    whole = sum(signal.values()) or 1.0
    return [{"name": name, "share": value / whole} for name, value in signal.items()]


def python(request: Request) -> str:
    """The same in Python."""
    reading = {
        name: getattr(request, name) for name in ("size", "label", "person", "records") if getattr(request, name)
    }
    reading |= {name: True for name in ("grey", "private_count") if getattr(request, name)}
    options = "".join(f", {name}={value!r}" for name, value in reading.items())
    settings = f", {request.settings!r}" if request.settings else ""
    return (
        "from sfumato import Budget, load, synthesize\n"
        "from sfumato.api import make_method\n\n"
        f'data = load("DATA"{options})\n'
        f'method = make_method("{request.method}"{settings})\n'
        f"budget = Budget(epsilon={request.epsilon:g}, delta={request.delta:g})\n"
        f'synthesize(method, data, budget, count={request.count}, out="release")\n'
    )


def asked_fields(request: Request) -> dict[str, Any]:
    """A request as it is kept and handed to a worker."""
    return asdict(request)
