"""Older ledgers brought to the present schema: no run, total or record is lost, and nothing gets cheaper."""

from __future__ import annotations

import json
import math
import sqlite3
from datetime import UTC, datetime
from typing import Any

from sfumato.accounting.gaussian import epsilon_of

# reserved: charged, and nothing crossed; begun: a crossing may have been made; committed: finished; returned: given
# back while it was reserved, so that it stays in the history and counts no more.
RUNS = """(
    run TEXT PRIMARY KEY, time TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL, method TEXT NOT NULL,
    plan_json TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('reserved', 'begun', 'committed', 'returned')),
    token TEXT NOT NULL
)"""


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_version_2(db: sqlite3.Connection) -> None:
    """Version 2 knows when a ledger was made, and which totals were granted under an account's own name.

    The first is taken from the earliest time in the file, and stays unknown where there is none. Totals of version 1
    do not say by which name they were granted, and count as granted under their own.
    """
    db.execute("ALTER TABLE secret ADD COLUMN made TEXT")
    db.execute(
        "UPDATE secret SET made = (SELECT min(at) FROM (SELECT min(opened) AS at FROM accounts "
        "UNION ALL SELECT min(time) FROM totals UNION ALL SELECT min(time) FROM runs))"
    )
    db.execute("ALTER TABLE totals ADD COLUMN own INTEGER NOT NULL DEFAULT 1")
    _reprice(db)
    _with_more_states(db)


def _with_more_states(db: sqlite3.Connection) -> None:
    """Nobody can prove of an old reservation that nothing crossed: it counts as begun, and stays spent."""
    db.execute(f"CREATE TABLE runs_2 {RUNS}")
    db.execute(
        "INSERT INTO runs_2 SELECT run, time, name, unit, method, plan_json, "
        "CASE status WHEN 'reserved' THEN 'begun' ELSE status END, token FROM runs ORDER BY rowid"
    )
    db.execute("DROP TABLE runs")
    db.execute("ALTER TABLE runs_2 RENAME TO runs")


def _reprice(db: sqlite3.Connection) -> None:
    """Version 1 charged a replaced unit for one of the two held parts it moves; see `accounting.two_parts`.

    Twice the Gaussian covers both. A run that is not purely Gaussian has no price under replace-one any more.
    """
    for run, plan in db.execute("SELECT run, plan_json FROM runs").fetchall():
        if not _moves_two(plan):
            continue
        row = db.execute("SELECT mu, slack FROM costs WHERE run = ? AND relation = 'replace-one'", (run,)).fetchone()
        if row is None or row[0] is None:
            continue
        mu, slack = (2 * row[0], 0.0) if row[1] == 0 else (None, None)
        db.execute("UPDATE costs SET mu = ?, slack = ? WHERE run = ? AND relation = 'replace-one'", (mu, slack, run))
        deltas = db.execute("SELECT DISTINCT delta FROM charges WHERE run = ? AND relation = 'replace-one'", (run,))
        for (delta,) in deltas.fetchall():
            epsilon = math.inf if mu is None else epsilon_of(delta, mu)
            query = "UPDATE charges SET epsilon = ? WHERE run = ? AND relation = 'replace-one' AND delta = ?"
            db.execute(query, (epsilon, run, delta))


def _moves_two(plan_json: Any) -> bool:
    """Whether a plan asked held parts that know their units by content."""
    try:
        plan = json.loads(plan_json)
        events = [part for event in plan["events"] for part in event.get("events", [event])]
        return plan["guarantee"]["relation"] == "add-remove" and any(event.get("held") for event in events)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
