"""Rows of the ledger as values: which accounts a data set belongs to, their totals and their runs."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sfumato.accounting.budget import Budget, Relation, Unit
from sfumato.errors import InputError
from sfumato.privacy.accounts_filter import Past, composed, remaining, spent

RETURNED = "(SELECT run FROM runs WHERE status = 'returned')"


@dataclass(frozen=True)
class Account:
    """One account with its present total; `overlaps` says whether it was met through records or by name alone."""

    id: int
    name: str
    total: Budget
    overlaps: bool

    @property
    def advice(self) -> str:
        """What to do where only the name is shared."""
        return "" if self.overlaps else " If these are other data that happen to share the name, rename them."


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def matching(db: sqlite3.Connection, name: str) -> list[Account]:
    """Every account of this name, or with a record among the given fingerprints."""
    # CROSS JOIN fixes the order: a lookup for each given record, however large the ledger is.
    rows = db.execute(
        "WITH met AS (SELECT DISTINCT account FROM temp.given CROSS JOIN fingerprints USING (print)) "
        "SELECT account, name, account IN met FROM accounts WHERE name = ? OR account IN met ORDER BY account",
        (name,),
    ).fetchall()
    return [Account(id, own, _total(db, id, own), bool(met)) for id, own, met in rows]


def open_account(db: sqlite3.Connection, name: str, total: Budget, source: str) -> Account:
    """A new account with its first total."""
    id = db.execute("INSERT INTO accounts (name, opened) VALUES (?, ?)", (name, now())).lastrowid
    assert id is not None
    account = Account(id, name, total, overlaps=True)
    add_total(db, account, total, source)
    return account


def add_total(db: sqlite3.Connection, account: Account, total: Budget, source: str) -> None:
    """Record a total; the latest one counts, the others stay as history."""
    db.execute(
        "INSERT INTO totals (account, time, epsilon, delta, relation, unit, source) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (account.id, now(), total.epsilon, total.delta, total.relation, total.unit, source),
    )


def opened_again(db: sqlite3.Connection, account: Account, budget: Budget) -> Account:
    """The account; where all its runs were given back and no custodian spoke, the next run is the first again."""
    sources = "SELECT source FROM totals WHERE account = ? ORDER BY total DESC LIMIT 1"
    charges = f"SELECT 1 FROM charges WHERE account = ? AND run NOT IN {RETURNED}"
    if db.execute(sources, (account.id,)).fetchone() != ("first run",) or db.execute(charges, (account.id,)).fetchone():
        return account
    if account.total != budget:
        add_total(db, account, budget, "first run")
    return replace(account, total=budget)


def enrol(db: sqlite3.Connection, account: Account) -> None:
    """Add the given fingerprints to an account."""
    db.execute("INSERT OR IGNORE INTO fingerprints (print, account) SELECT print, ? FROM temp.given", (account.id,))


def past_runs(db: sqlite3.Connection, account: Account, total: Budget) -> list[Past]:
    """All runs charged to an account, but for those that were given back, as `total` sees them."""
    found = db.execute(
        "SELECT costs.run, mu, slack, epsilon, delta, charges.relation FROM charges "
        "LEFT JOIN costs ON costs.run = charges.run AND costs.relation = ? "
        f"WHERE account = ? AND charges.run NOT IN {RETURNED} ORDER BY charges.rowid",
        (total.relation, account.id),
    ).fetchall()
    return [_past(account, total, *row) for row in found]


def _past(
    account: Account, total: Budget, run: Any, mu: Any, slack: Any, epsilon: Any, delta: Any, relation: Any
) -> Past:
    numbers = (epsilon, delta) if mu is None and slack is None else (mu, slack, epsilon, delta)
    if run is None or not all(isinstance(number, float) and number >= 0 for number in numbers):
        raise InputError(f"A run of account '{account.name}' in the privacy ledger is damaged; restore it from a copy.")
    own = epsilon if (delta, relation) == (total.delta, total.relation) else None
    return Past(math.inf, math.inf, own) if mu is None else Past(mu, slack, own)


def units(db: sqlite3.Connection, account: Account) -> set[str]:
    """Units of the runs charged to an account."""
    query = "SELECT DISTINCT unit FROM charges JOIN runs USING (run) WHERE account = ? AND status != 'returned'"
    return {unit for (unit,) in db.execute(query, (account.id,))}


def described(db: sqlite3.Connection, account: Account) -> dict[str, Any]:
    """What may be shown of an account; None stands for a number that no bound is known for."""
    total, past = account.total, past_runs(db, account, account.total)
    (mu, slack), so_far = composed(past), spent(account.total, past)
    return {
        "account": account.name,
        "total": {
            "epsilon": total.epsilon,
            "delta": total.delta,
            "relation": str(total.relation),
            "unit": str(total.unit),
        },  # fmt: skip
        "spent": so_far if math.isfinite(so_far) else None,
        "remaining": remaining(total, past),
        "mu": mu if math.isfinite(mu) else None,
        "slack": slack if math.isfinite(slack) else None,
        "history": _dicts(
            db,
            "SELECT run, time, method, epsilon, delta, relation, status FROM charges JOIN runs USING (run) "
            "WHERE account = ? ORDER BY charges.rowid",
            account,
        ),
        "totals": _dicts(
            db,
            "SELECT time, epsilon, delta, relation, unit, source FROM totals WHERE account = ? ORDER BY total",
            account,
        ),
    }


def _total(db: sqlite3.Connection, account: int, name: str) -> Budget:
    row = db.execute(
        "SELECT epsilon, delta, relation, unit FROM totals WHERE account = ? ORDER BY total DESC LIMIT 1", (account,)
    ).fetchone()
    try:
        epsilon, delta, relation, unit = row
        return Budget(epsilon, delta, Relation(relation), Unit(unit))
    except (TypeError, ValueError):
        sentence = f"The total of account '{name}' in the privacy ledger is damaged; restore the file from a copy."
        raise InputError(sentence) from None


def _dicts(db: sqlite3.Connection, query: str, account: Account) -> list[dict[str, Any]]:
    cursor = db.execute(query, (account.id,))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
