"""Accounts: the privacy ledger that outlives a process and composes all runs on the same data."""

from __future__ import annotations

import functools
import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sfumato.accounting.budget import Budget, Relation
from sfumato.errors import InputError, OverBudget
from sfumato.ledger import rows as rows
from sfumato.ledger.admit import Cost, Costs, Price, admit, check_change, past_of, price_of, served
from sfumato.ledger.migrate import now
from sfumato.ledger.schema import Digests, Store, default_path

__all__ = ["Ledger", "Cost", "Reservation", "default_path", "new_reservation"]


@dataclass(frozen=True)
class Reservation:
    """A run whose cost is charged; the token is held by the one process that may carry it out."""

    run: str
    token: str


def new_reservation() -> Reservation:
    """A fresh identity for a run."""
    return Reservation(secrets.token_hex(16), secrets.token_hex(32))


class Ledger:
    """The ledger in one SQLite file, or a throw-away one in memory where `path` is None.

    A data set belongs to the account of its name and to every account that shares a record or a person with it. These
    are known by hashes keyed with a secret that never leaves the file. Each account has room of its own. What is told
    outside (`told`, and the text of a refusal) speaks of the account of the declared name alone and of the runs under
    that name: whether another account is met at all may hang on a single record.

    >>> import numpy as np
    >>> from sfumato.accounting.gaussian import epsilon_of
    >>> digests = np.zeros((1, 32), np.uint8)
    >>> with Ledger(None) as ledger:
    ...     ledger.set_total("scans", digests, Budget(epsilon=2))
    ...     _ = ledger.reserve(name="scans", digests=digests, budget=Budget(epsilon=1), method="dp-merf",
    ...         cost=lambda relation: Cost(0.268, 0.0, lambda delta: epsilon_of(delta, 0.268)), plan_json="{}")
    ...     round(ledger.show("scans", None)["remaining"], 2)
    1.64
    """

    def __init__(self, path: str | Path | None, *, patience: float = 30.0) -> None:
        self._store = Store(None if path is None else Path(path), patience)
        self.throw_away = path is None
        self.made = self._store.made

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def reserve(
        self,
        *,
        name: str,
        digests: Digests,
        budget: Budget,
        cost: Callable[[Relation], Cost],
        plan_json: str,
        method: str,
        reservation: Reservation | None = None,
        named: bool = True,
    ) -> Reservation:
        """Spend a whole run before its first crossing, or raise `OverBudget` and spend nothing.

        `cost(relation)` raises ValueError for a relation the run does not serve. Where the data set belongs to
        several accounts, each must have room and each is charged. A name that is new opens an account whose total is
        `budget`. With `named=False` the name is made of the content: it opens an account only where no other is met,
        and a refusal tells nothing. A caller that must find its run again after a crash brings its own `reservation`,
        stored durably beforehand; see `knows`.
        """
        _check_name(name)
        costs = {relation: served(cost, relation) for relation in Relation}
        price = functools.cache(functools.partial(price_of, costs))
        self._warm(name, digests, price)
        made = reservation or new_reservation()
        with self._store.writing(digests) as db:
            accounts = [rows.opened_again(db, account, budget, name) for account in rows.matching(db, name)]
            if _opens(accounts, name, named):
                accounts.append(rows.open_account(db, name, budget, "first run"))
            admit(db, name if named else None, accounts, budget, costs, price)
            _record(db, made, name, budget, costs, plan_json, method)
            for account in accounts:
                total = account.granted if account.name == name else account.total
                charge = (account.id, made.run, price(total.relation, total.delta), total.delta, total.relation)
                db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", charge)
            # Records that another account knows already join that one. The account of a new name would bind them by
            # its first run's budget, which no custodian has granted.
            for account in [account for account in accounts if account.met] or accounts:
                rows.enrol(db, account)
        return made

    def foreseen(
        self, *, name: str, digests: Digests, budget: Budget, cost: Callable[[Relation], Cost], named: bool = True
    ) -> dict[str, Any] | None:
        """What `reserve` would take of the account of this name and leave of it; None where there is none yet.

        Raises as `reserve` would, and writes nothing. As with `told`, which other accounts share a record with these
        data is not said: whoever starts a run need not be the custodian.
        """
        _check_name(name)
        costs = {relation: served(cost, relation) for relation in Relation}
        price = functools.cache(functools.partial(price_of, costs))
        self._warm(name, digests, price)
        with self._store.reading(digests) as db:
            accounts = [rows.opened_again(db, a, budget, name, write=False) for a in rows.matching(db, name)]
            admit(db, name if named else None, accounts, budget, costs, price)
            own = [account for account in accounts if account.name == name and named]
            return rows.foreseen(db, own[0], past_of(costs, price, own[0].granted)) if own else None

    def resume(self, run: str, token: str, new_token: str) -> None:
        """Take over a run from the holder of `token`, once; the caller has made `new_token` at random and durable.

        After a crash in between, the caller tries again from `new_token` with a third one. Repeating the same call
        is refused, as it cannot be told from a copy of the checkpoint.
        """
        if not new_token or new_token == token:
            raise ValueError("Expected new_token to be fresh, found the old one or none.")
        query = "UPDATE runs SET token = ? WHERE run = ? AND token = ? AND status IN ('reserved', 'begun')"
        with self._store.writing() as db:
            if db.execute(query, (new_token, run, token)).rowcount != 1:
                raise OverBudget(f"{_why_not(db, run, token)} Start a new run instead.")

    def begin(self, run: str, token: str) -> None:
        """Mark durably that something is about to cross; from here on nothing is given back. May be repeated.

        Refused where the reservation was given back or taken over meanwhile, in the transaction that would mark it.
        """
        query = "UPDATE runs SET status = 'begun' WHERE run = ? AND token = ? AND status IN ('reserved', 'begun')"
        with self._store.writing() as db:
            if db.execute(query, (run, token)).rowcount != 1:
                raise OverBudget(f"{_why_not(db, run, token)} Nothing crossed; start a new run.")

    def give_back(self, run: str, token: str) -> bool:
        """Return a reservation that nothing crossed; False where a crossing may have been made, or another holds it.

        Sound whatever else goes on: `begin` must find the run reserved, so that no record is read under a
        reservation that was given back.
        """
        query = "UPDATE runs SET status = 'returned' WHERE run = ? AND token = ? AND status = 'reserved'"
        with self._store.writing() as db:
            return db.execute(query, (run, token)).rowcount == 1

    def unbegun(self) -> list[str]:
        """Runs that are reserved and from which nothing crossed: of living processes, or of some that were killed."""
        with self._store.reading() as db:
            return [run for (run,) in db.execute("SELECT run FROM runs WHERE status = 'reserved' ORDER BY rowid")]

    def knows(self, run: str) -> bool:
        """Whether this run was ever reserved here."""
        with self._store.reading() as db:
            return db.execute("SELECT 1 FROM runs WHERE run = ?", (run,)).fetchone() is not None

    def run(self, run: str) -> dict[str, Any] | None:
        """For the custodian: when a run began, its method and status, and the most that an account was charged."""
        with self._store.reading() as db:
            return rows.one_run(db, run)

    def holds(self, run: str, token: str) -> bool:
        """Whether this token is still the current one; a process that lost it must release nothing more."""
        query = "SELECT 1 FROM runs WHERE run = ? AND token = ? AND status != 'returned'"
        with self._store.reading() as db:
            return db.execute(query, (run, token)).fetchone() is not None

    def commit(self, run: str, token: str) -> None:
        """Mark a run as finished, which closes it to resumption; may be repeated."""
        with self._store.writing() as db:
            query = "UPDATE runs SET status = 'committed' WHERE run = ? AND token = ? AND status != 'returned'"
            if db.execute(query, (run, token)).rowcount != 1:
                raise OverBudget(f"{_why_not(db, run, token)} Its results may not be released from here.")

    def set_total(self, name: str, digests: Digests | None, total: Budget, *, named: bool = True) -> None:
        """Set or change what the custodian grants, on every account the data set belongs to."""
        _check_name(name)
        with self._store.writing(digests) as db:
            found = rows.matching(db, name)
            check_change(db, name if named else None, found, total)
            for account in found:
                rows.add_total(db, account, total, "custodian", name)
            if _opens(found, name, named):
                found.append(rows.open_account(db, name, total, "custodian"))
            for account in found:
                rows.enrol(db, account)

    def told(self, name: str) -> dict[str, Any]:
        """What may be told to anyone: the runs under this very name, all of them together, and the ledger's date.

        Nothing of it hangs on which records the data of other names share with these.
        """
        with self._store.reading() as db:
            return rows.told(db, name) | {"made": self.made}

    def show(self, name: str, digests: Digests | None = None) -> dict[str, Any]:
        """For the custodian: the account with the least room, and under "others" any further ones of the data set.

        `spent` and `remaining` are epsilons at the total's delta. None stands for a number that no bound is known for.
        """
        _check_name(name)
        with self._store.reading(digests) as db:
            found = [rows.described(db, account) for account in rows.matching(db, name)]
        if not found:
            nothing = {"total": None, "spent": 0.0, "remaining": None, "mu": 0.0, "slack": 0.0}
            return {"account": name, **nothing, "history": [], "totals": [], "others": []}
        tightest, *others = sorted(found, key=lambda account: account["remaining"])
        return {**tightest, "others": others}

    def _warm(self, name: str, digests: Digests, price: Price) -> None:
        """Work out the epsilons that will be needed while nobody waits for the write lock."""
        with self._store.reading(digests) as db:
            totals = [total for account in rows.matching(db, name) for total in (account.total, account.granted)]
        for total in totals:
            price(total.relation, total.delta)


def _opens(accounts: list[rows.Account], name: str, named: bool) -> bool:
    """Whether a new account is due: every name that was declared has its own."""
    return not any(account.name == name or not named for account in accounts)


def _record(
    db: sqlite3.Connection, made: Reservation, name: str, budget: Budget, costs: Costs, plan_json: str, method: str
) -> None:
    run = (made.run, now(), name, budget.unit, method, plan_json, "reserved", made.token)
    db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", run)
    for relation, own in costs.items():
        pair = (own.mu, own.slack) if isinstance(own, Cost) else (None, None)
        db.execute("INSERT INTO costs VALUES (?, ?, ?, ?)", (made.run, relation, *pair))


def _why_not(db: sqlite3.Connection, run: str, token: str) -> str:
    row = db.execute("SELECT token, status FROM runs WHERE run = ?", (run,)).fetchone()
    if row is None:
        return f"The run '{run}' is not in this privacy ledger."
    if row[1] == "returned":
        return f"What the run '{run}' had reserved was given back, since nothing had crossed."
    if row[0] == token:
        return f"The run '{run}' is finished, so its checkpoint may not be resumed."
    return f"The checkpoint of run '{run}' was already resumed elsewhere."


def _check_name(name: str) -> None:
    try:
        if name.strip() and name.encode():
            return
    except UnicodeEncodeError:
        pass
    raise InputError(f"The name {ascii(name)} cannot name an account; use a name that is not empty and is UTF-8.")
