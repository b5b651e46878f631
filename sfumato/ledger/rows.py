"""Rows of the ledger as values: which accounts a data set belongs to, their totals and their runs."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from sfumato.accounting.budget import Budget, Relation, Unit
from sfumato.errors import InputError
from sfumato.ledger.filter import Past, composed, remaining, spent
from sfumato.ledger.migrate import now


@dataclass(frozen=True)
class Account:
    """One account. `total` is the latest one; `granted` the latest under the account's own name.

    `met` says whether it was met through records, or by name alone.
    """

    id: int
    name: str
    total: Budget
    granted: Budget
    met: bool = False


def matching(db: sqlite3.Connection, name: str) -> list[Account]:
    """Every account of this name, or with a record among the given fingerprints."""
    # CROSS JOIN fixes the order: a lookup for each given record, however large the ledger is.
    rows = db.execute(
        "WITH met AS (SELECT DISTINCT account FROM temp.given CROSS JOIN fingerprints USING (print)) "
        "SELECT account, name, account IN met FROM accounts WHERE name = ? OR account IN met ORDER BY account",
        (name,),
    ).fetchall()
    return [Account(id, own, _total(db, id), _total(db, id, own=1), bool(met)) for id, own, met in rows]


def open_account(db: sqlite3.Connection, name: str, total: Budget, source: str) -> Account:
    """A new account with its first total."""
    id = db.execute("INSERT INTO accounts (name, opened) VALUES (?, ?)", (name, now())).lastrowid
    assert id is not None
    account = Account(id, name, total, total)
    add_total(db, account, total, source, name)
    return account


def add_total(db: sqlite3.Connection, account: Account, total: Budget, source: str, name: str) -> None:
    """Record a total granted to data of this name; the latest one counts, the others stay as history."""
    db.execute(
        "INSERT INTO totals (account, time, epsilon, delta, relation, unit, source, own) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (account.id, now(), total.epsilon, total.delta, total.relation, total.unit, source, name == account.name),
    )


def opened_again(db: sqlite3.Connection, account: Account, budget: Budget, name: str, *, write: bool = True) -> Account:
    """The account; where all its runs were given back and no custodian spoke, the next run is the first again."""
    sources = "SELECT source FROM totals WHERE account = ? ORDER BY total DESC LIMIT 1"
    if db.execute(sources, (account.id,)).fetchone() != ("first run",):
        return account
    if past_runs(db, account, account.total, named=account.name == name):
        return account
    if write and account.total != budget:
        add_total(db, account, budget, "first run", name)
    return replace(account, total=budget, granted=budget if account.name == name else account.granted)


def enrol(db: sqlite3.Connection, account: Account) -> None:
    """Add the given fingerprints to an account."""
    db.execute("INSERT OR IGNORE INTO fingerprints (print, account) SELECT print, ? FROM temp.given", (account.id,))


# Runs with what they cost one account: all that are charged to it, or those that were asked for under its own name.
# The second must not depend on which records the data of other names share with it.
_FROM = "FROM runs LEFT JOIN charges ON charges.run = runs.run AND charges.account = :account"
_WHERE = "WHERE CASE WHEN :named THEN runs.name = :name ELSE charges.account IS NOT NULL END"
_COUNTED = f"{_WHERE} AND status != 'returned'"


def past_runs(db: sqlite3.Connection, account: Account, total: Budget, *, named: bool = False) -> list[Past]:
    """All runs charged to an account, or those of its own name, as `total` sees them; not what was given back."""
    found = db.execute(
        f"SELECT costs.run, mu, slack, epsilon, delta, charges.relation {_FROM} "
        f"LEFT JOIN costs ON costs.run = runs.run AND costs.relation = :relation {_COUNTED} ORDER BY runs.rowid",
        {"account": account.id, "name": account.name, "named": named, "relation": total.relation},
    ).fetchall()
    return [_past(total, *row) for row in found]


def _past(total: Budget, run: Any, mu: Any, slack: Any, epsilon: Any, delta: Any, relation: Any) -> Past:
    numbers = [() if mu is None and slack is None else (mu, slack), () if delta is None else (epsilon, delta)]
    if run is None or not all(isinstance(number, float) and number >= 0 for pair in numbers for number in pair):
        raise InputError("A run in the privacy ledger is damaged; restore the file from a copy.")
    own = epsilon if (delta, relation) == (total.delta, total.relation) else None
    return Past(math.inf, math.inf, own) if mu is None else Past(mu, slack, own)


def units(db: sqlite3.Connection, account: Account, *, named: bool = False) -> set[str]:
    """Units of the runs charged to an account, or of those of its own name."""
    found = _listed(db, account, "unit, status", named=named)
    return {one["unit"] for one in found if one["status"] != "returned"}


def history(db: sqlite3.Connection, account: Account, *, named: bool = False) -> list[dict[str, Any]]:
    """The runs of an account, or those of its own name, one by one."""
    columns = "runs.run, time, method, epsilon, delta, charges.relation AS relation, status"
    return _listed(db, account, columns, named=named)


def one_run(db: sqlite3.Connection, run: str) -> dict[str, Any] | None:
    """A run by its name, with its dearest charge; None where it was never reserved here."""
    found = _dicts(db, "SELECT run, time, name, method, unit, status FROM runs WHERE run = :run", {"run": run})
    query = "SELECT epsilon, delta, relation FROM charges WHERE run = :run ORDER BY epsilon DESC LIMIT 1"
    return found[0] | {"charged": next(iter(_dicts(db, query, {"run": run})), None)} if found else None


def told(db: sqlite3.Connection, name: str) -> dict[str, Any]:
    """What may be told of an account to anyone: the runs and the total of its own name, whatever others share."""
    row = db.execute("SELECT account FROM accounts WHERE name = ?", (name,)).fetchone()
    if row is None:
        return {"runs": [], "epsilon_total": 0.0, "delta": None}
    granted = _total(db, row[0], own=1)
    account = Account(row[0], name, granted, granted)
    so_far = spent(granted, past_runs(db, account, granted, named=True))
    return {
        "runs": [run for run in history(db, account, named=True) if run["status"] != "returned"],
        "epsilon_total": so_far if math.isfinite(so_far) else None,
        "delta": granted.delta,
    }


def described(db: sqlite3.Connection, account: Account) -> dict[str, Any]:
    """What may be shown of an account; None stands for a number that no bound is known for."""
    total = account.total
    past = past_runs(db, account, account.total)
    (mu, slack), so_far = composed(past), spent(account.total, past)
    return {
        "account": account.name,
        "total": {
            "epsilon": total.epsilon,
            "delta": total.delta,
            "relation": str(total.relation),
            "unit": str(total.unit),
        },
        "spent": so_far if math.isfinite(so_far) else None,
        "remaining": remaining(total, past),
        "mu": mu if math.isfinite(mu) else None,
        "slack": slack if math.isfinite(slack) else None,
        "history": history(db, account),
        "totals": _dicts(
            db,
            "SELECT time, epsilon, delta, relation, unit, source FROM totals WHERE account = :account ORDER BY total",
            {"account": account.id},
        ),
    }


def foreseen(db: sqlite3.Connection, account: Account, run: Past) -> dict[str, Any]:
    """What is told of an account before a run, by the runs and totals of its own name alone."""
    past = past_runs(db, account, account.granted, named=True)
    return {
        "account": account.name,
        "total": account.granted.epsilon,
        "delta": account.granted.delta,
        "runs": len(past),
        "cost": run.epsilon,
        "remaining": remaining(account.granted, past),
        "afterwards": remaining(account.granted, [*past, run]),
    }


def _total(db: sqlite3.Connection, account: int, own: int = 0) -> Budget:
    """The latest total, or the latest that was granted under the account's own name."""
    row = db.execute(
        "SELECT epsilon, delta, relation, unit FROM totals WHERE account = ? AND own >= ? ORDER BY total DESC LIMIT 1",
        (account, own),
    ).fetchone()
    try:
        epsilon, delta, relation, unit = row
        return Budget(epsilon, delta, Relation(relation), Unit(unit))
    except (TypeError, ValueError):
        sentence = "A total in the privacy ledger is damaged; restore the file from a copy."
        raise InputError(sentence) from None


def _listed(db: sqlite3.Connection, account: Account, columns: str, *, named: bool) -> list[dict[str, Any]]:
    given = {"account": account.id, "name": account.name, "named": named}
    return _dicts(db, f"SELECT {columns} {_FROM} {_WHERE} ORDER BY runs.rowid", given)


def _dicts(db: sqlite3.Connection, query: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    cursor = db.execute(query, given)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
