"""Whether a run or a total passes, and what is said where it does not: an analyst may read every word of it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from sfumato.accounting.budget import Budget, Relation
from sfumato.errors import InputError, OverBudget, SfumatoError
from sfumato.ledger import rows as rows
from sfumato.ledger.filter import Past, admits, refusal

# Said of every account of the declared name: whether its records are these is not told.
ADVICE = " If these are other data that happen to share the name, rename them."
# What a refusal says of accounts that are met through records: that there is one, and where the custodian sees it.
ELSEWHERE = (
    "An account of this ledger that shares records or persons with these data has no room for this run; "
    "the custodian sees it with `sfumato budget DATA`."
)
NAMELESS = (
    "The ledger has no room for this run on these data, which came without a name and are known by their records "
    "alone; ask for less, or let the custodian look with `sfumato.api.budget_of` and raise the total."
)
UNCOUNTED = (
    "An account of this ledger that shares records or persons with these data has runs that cannot be counted "
    "under this total; see it with `sfumato budget DATA` and set a total of its relation and unit."
)


@dataclass(frozen=True)
class Cost:
    """What one whole run costs under one relation.

    The run is dominated, in both directions, by a mechanism that reveals everything with probability `slack`
    and is mu-Gaussian otherwise: delta_run(eps) <= slack + (1 - slack) * delta_gauss(eps; mu) for every eps.
    A purely Gaussian run has slack 0 and its exact mu. `epsilon_at(delta)` is the run's own exact epsilon.
    """

    mu: float
    slack: float
    epsilon_at: Callable[[float], float]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mu) and self.mu >= 0):
            raise ValueError(f"Expected mu to be a finite number of at least 0, found mu={self.mu}.")
        if not 0 <= self.slack < 1:
            raise ValueError(f"Expected slack of at least 0 and below 1, found slack={self.slack}.")


Costs = dict[Relation, Cost | ValueError]
Price = Callable[[Relation, float], float]


def price_of(costs: Costs, relation: Relation, delta: float) -> float:
    """The run's own epsilon; infinite under a relation that it does not serve."""
    own = costs[relation]
    return own.epsilon_at(delta) if isinstance(own, Cost) else math.inf


def past_of(costs: Costs, price: Price, total: Budget) -> Past:
    """The run as the filter of a total sees it."""
    own = costs[total.relation]
    mu, slack = (own.mu, own.slack) if isinstance(own, Cost) else (math.inf, math.inf)
    return Past(mu, slack, price(total.relation, total.delta))


def served(cost: Callable[[Relation], Cost], relation: Relation) -> Cost | ValueError:
    """The cost, or why there is none."""
    try:
        return cost(relation)
    except ValueError as error:
        return error


def admit(
    db: sqlite3.Connection, name: str | None, accounts: list[rows.Account], budget: Budget, costs: Costs, price: Price
) -> None:
    """Let the run pass, or raise; None is a name that is made of the content.

    The account of the declared name is judged first and by the runs and totals of that name alone, so that the same
    words are said whatever records the data share with others.
    """
    for account in (account for account in accounts if account.name == name):
        past = rows.past_runs(db, account, account.granted, named=True)
        if refused := _refused(account.name, account.granted, past, budget, costs, price):
            raise refused
    for account in accounts:
        past = rows.past_runs(db, account, account.total)
        if _refused(account.name, account.total, past, budget, costs, price):
            raise OverBudget(NAMELESS if name is None else ELSEWHERE)


def _refused(
    name: str, total: Budget, past: list[Past], budget: Budget, costs: Costs, price: Price
) -> SfumatoError | None:
    """Why a run does not fit an account, with its numbers."""
    if budget.unit != total.unit:
        return InputError(
            f"The account '{name}' is kept per {total.unit} and this run is planned per {budget.unit}; "
            f"plan it with --unit {total.unit}.{ADVICE}"
        )
    own = costs[total.relation]
    if isinstance(own, ValueError):
        return InputError(
            f"The account '{name}' is kept under {total.relation}, which this run does not serve ({own}); "
            f"plan it with --relation {total.relation}, or choose a method or setting that serves it."
        )
    run = past_of(costs, price, total)
    return None if admits(total, past, run) else OverBudget(refusal(name, total, past, run) + ADVICE)


def check_change(db: sqlite3.Connection, name: str | None, accounts: list[rows.Account], total: Budget) -> None:
    """Refuse a total that earlier runs cannot be counted under; one below what is spent is allowed."""
    for account in (account for account in accounts if account.name == name):
        if others := rows.units(db, account, named=True) - {total.unit}:
            raise InputError(
                f"The account '{name}' has runs per {others.pop()} and the new total is per {total.unit}; "
                f"set a total per {account.granted.unit}.{ADVICE}"
            )
        if _unknown(rows.past_runs(db, account, total, named=True)):
            raise InputError(
                f"The account '{name}' has a run whose cost under {total.relation} is not known; "
                f"set a total under {account.granted.relation}."
            )
    for account in accounts:
        if rows.units(db, account) - {total.unit} or _unknown(rows.past_runs(db, account, total)):
            raise InputError(UNCOUNTED)


def _unknown(past: list[Past]) -> bool:
    return any(math.isinf(run.mu) for run in past)
