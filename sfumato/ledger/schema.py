"""The SQLite file behind the accounts: made whole or not at all, opened with care, its failures put in words."""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.ledger.migrate import RUNS, now, to_version_2

Digests = npt.NDArray[np.uint8]

APPLICATION = 0x53464D54  # "SFMT" in the file's header
VERSION = 2

SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE secret (key BLOB NOT NULL CHECK (length(key) = 32), made TEXT);
CREATE TABLE accounts (account INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, opened TEXT NOT NULL);
CREATE TABLE fingerprints (
    print BLOB NOT NULL, account INTEGER NOT NULL REFERENCES accounts, PRIMARY KEY (print, account)
) WITHOUT ROWID;
CREATE TABLE totals (
    total INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts, time TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, relation TEXT NOT NULL, unit TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('custodian', 'first run')),
    own INTEGER NOT NULL DEFAULT 1  -- 0 where it was granted to data of another name that share records
);
CREATE TABLE runs {RUNS};
CREATE TABLE costs (  -- a relation that a run does not serve has NULLs
    run TEXT NOT NULL REFERENCES runs, relation TEXT NOT NULL, mu REAL CHECK (mu >= 0), slack REAL CHECK (slack >= 0),
    PRIMARY KEY (run, relation)
);
CREATE TABLE charges (
    account INTEGER NOT NULL REFERENCES accounts, run TEXT NOT NULL REFERENCES runs,
    epsilon REAL NOT NULL, delta REAL NOT NULL, relation TEXT NOT NULL, PRIMARY KEY (account, run)
);
"""

_WORDS = {
    sqlite3.SQLITE_BUSY: "is locked by another process; wait until it has finished and try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; wait until it has finished and try again",
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full; free some space and try again",
    sqlite3.SQLITE_READONLY: "or its folder is read-only; make it writable or name another file with --ledger",
    sqlite3.SQLITE_PERM: "or its folder is read-only; make it writable or name another file with --ledger",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; make it readable and writable or name another file with --ledger",
    sqlite3.SQLITE_IOERR: "cannot be read or written; check the disk or name another file with --ledger",
    sqlite3.SQLITE_NOTADB: "is not a privacy ledger; name another file with --ledger",
}


def default_path() -> Path:
    """The user's ledger: `SFUMATO_LEDGER`, or sfumato/ledger.sqlite in the user's data directory."""
    if named := os.environ.get("SFUMATO_LEDGER"):
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME", "")
    try:  # a relative XDG_DATA_HOME is to be ignored, by its own specification
        folder = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    except RuntimeError:
        raise InputError("No home directory holds the privacy ledger; name a file with --ledger.") from None
    return folder / "sfumato" / "ledger.sqlite"


class Store:
    """One open ledger file, or one in memory where `path` is None."""

    def __init__(self, path: Path | None, patience: float) -> None:
        self.path = path
        self._lock = threading.RLock()
        with explained(path):
            if path is not None:
                _create_if_missing(path)
            self._db = _connect(path, patience)
            try:
                self._key, self.made = _prepare(self._db, path)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file; nothing is pending, every write is durable when its call returns."""
        self._db.close()

    @contextmanager
    def reading(self, digests: Digests | None = None) -> Iterator[sqlite3.Connection]:
        """One consistent view, with the digests' fingerprints in the temporary table `given`."""
        with self._transaction("BEGIN", digests) as db:
            yield db

    @contextmanager
    def writing(self, digests: Digests | None = None) -> Iterator[sqlite3.Connection]:
        """The same, with the write lock taken at once: what is read inside cannot change before it is written."""
        with self._transaction("BEGIN IMMEDIATE", digests) as db:
            yield db

    @contextmanager
    def _transaction(self, begin: str, digests: Digests | None) -> Iterator[sqlite3.Connection]:
        with self._lock, explained(self.path):
            with _all_or_nothing(self._db, "BEGIN"):  # touches the temporary table alone, so nobody waits for it
                self._db.execute("DELETE FROM temp.given")
                prints = () if digests is None else fingerprints(digests, self._key)
                self._db.executemany("INSERT OR IGNORE INTO temp.given VALUES (?)", ((one,) for one in prints))
            with _all_or_nothing(self._db, begin):
                yield self._db


def fingerprints(digests: Digests, key: bytes) -> Iterable[bytes]:
    """Keyed hashes of the records: without the key nobody can ask the file whether a known image is in it."""
    if digests.ndim != 2 or digests.shape[1] != 32 or digests.dtype != np.uint8:
        raise ValueError(f"Expected digests as uint8 of n x 32, found {digests.dtype} of shape {digests.shape}.")
    data = np.ascontiguousarray(digests).tobytes()
    rows = (data[start : start + 32] for start in range(0, len(data), 32))
    return (hashlib.blake2b(row, digest_size=16, key=key).digest() for row in rows)


@contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turn failures of the file or the disk into one sentence."""
    where = "in memory" if path is None else f"'{path}'"
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind of failure
        words = _WORDS.get(code, f"is damaged ({error}); restore it from a copy, as what was spent is in it")
        raise InputError(f"The privacy ledger {where} {words}.") from error
    except UnicodeDecodeError as error:  # of a damaged name that SQLite could not put into its message
        raise InputError(f"The privacy ledger {where} is damaged; restore it from a copy.") from error


@contextmanager
def _all_or_nothing(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _create_if_missing(path: Path) -> None:
    try:
        if not os.path.lexists(path):
            _create(path)
    except OSError as error:
        sentence = f"No privacy ledger can be made at '{path}' ({error.strerror or error}); name another with --ledger."
        raise InputError(sentence) from error


def _create(path: Path) -> None:
    """Make a whole ledger beside `path` and link it there: an empty or half-made ledger can never be met."""
    if not path.parent.is_dir():
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with closing(_connect(draft, 0)) as db:
            _fill(db)
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first, and its ledger is the one
    finally:
        draft.unlink()


def _fill(db: sqlite3.Connection) -> None:
    db.executescript(f"PRAGMA synchronous = EXTRA; BEGIN; {SCHEMA}")
    db.execute("INSERT INTO secret VALUES (?, ?)", (secrets.token_bytes(32), now()))
    db.execute("COMMIT")


def _connect(path: Path | None, patience: float) -> sqlite3.Connection:
    # mode=rw: a file that went away is an error, never a fresh and empty budget.
    uri = "file::memory:" if path is None else f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)


def _prepare(db: sqlite3.Connection, path: Path | None) -> tuple[bytes, str | None]:
    """Set the connection up, check that this is a ledger we can read, and take its key and the day it was made."""
    if path is None:
        _fill(db)
    for setting in ("synchronous = EXTRA", "temp_store = MEMORY"):
        db.execute(f"PRAGMA {setting}")
    if _value(db, "PRAGMA application_id") != APPLICATION:
        raise InputError(f"The file '{path}' is not a privacy ledger; name another file with --ledger.")
    if _value(db, "PRAGMA user_version") > VERSION:
        raise InputError(f"The privacy ledger '{path}' was made by a newer Sfumato; upgrade this one to use it.")
    _migrate(db)
    db.execute("PRAGMA foreign_keys = ON")  # off while a table that others refer to is made anew
    db.execute("CREATE TEMP TABLE given (print BLOB PRIMARY KEY) WITHOUT ROWID")
    key, made = db.execute("SELECT max(key), made FROM secret").fetchone()
    if not isinstance(key, bytes) or len(key) != 32:
        raise InputError(f"The privacy ledger '{path}' is damaged, its key is missing; restore it from a copy.")
    return key, _day(made)


def _migrate(db: sqlite3.Connection) -> None:
    """Bring an older ledger to this version, whole or not at all."""
    if _value(db, "PRAGMA user_version") == VERSION:
        return
    with _all_or_nothing(db, "BEGIN IMMEDIATE"):
        if _value(db, "PRAGMA user_version") < 2:  # asked again: another process may have been first
            to_version_2(db)
        db.execute(f"PRAGMA user_version = {VERSION}")


def _day(time: object) -> str | None:
    """The day of a time; None for what is not one, as the file may have been damaged."""
    try:
        return date.fromisoformat(str(time)[:10]).isoformat()
    except ValueError:
        return None


def _value(db: sqlite3.Connection, query: str) -> Any:
    return db.execute(query).fetchone()[0]
