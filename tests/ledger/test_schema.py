from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.gaussian import epsilon_of
from sfumato.errors import InputError, SfumatoError
from sfumato.ledger import migrate
from sfumato.ledger import schema as schema
from sfumato.ledger.schema import APPLICATION, VERSION, fingerprints
from sfumato.ledger.store import Cost, Ledger, Reservation, default_path


def cost(relation: Relation) -> Cost:
    return Cost(0.1, 0.0, lambda delta: epsilon_of(delta, 0.1))


def reserve(ledger: Ledger, count: int = 3, name: str = "scans", first: int = 0) -> Reservation:
    digests = np.zeros((count, 32), np.uint8)
    digests[:, :4] = (np.arange(count, dtype=">u4") + first).view(np.uint8).reshape(-1, 4)
    return ledger.reserve(name=name, digests=digests, budget=Budget(5.0), cost=cost, plan_json="{}", method="m")


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SFUMATO_LEDGER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_path() == tmp_path / "data" / "sfumato" / "ledger.sqlite"
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", unusable)
        assert default_path() == tmp_path / ".local" / "share" / "sfumato" / "ledger.sqlite"
    monkeypatch.setenv("SFUMATO_LEDGER", "/elsewhere/l.sqlite")
    assert default_path() == Path("/elsewhere/l.sqlite")


def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "sfumato" / "ledger.sqlite"
    before = os.umask(0)
    try:
        with Ledger(path) as ledger:
            reserve(ledger)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["ledger.sqlite"]


def test_a_ledger_survives_its_process_and_keeps_its_key(tmp_path: Path) -> None:
    path = tmp_path / "with space ? # % é.sqlite"
    with Ledger(path) as ledger:
        made = reserve(ledger)
    with Ledger(str(path)) as ledger:
        reserve(ledger, name="renamed")
        assert ledger.holds(made.run, made.token)
        assert len(ledger.show("scans")["history"]) == 2
        assert len(ledger.show("renamed")["history"]) == 1


def test_throw_away_ledgers_share_nothing_and_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger(None) as one, Ledger(None) as other:
        reserve(one)
        assert len(one.show("scans")["history"]) == 1 and other.show("scans")["history"] == []
    assert list(tmp_path.iterdir()) == []


def test_writes_are_durable_and_checked(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l") as ledger, ledger._store.reading() as db:
        pragmas = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")}
        assert pragmas == {"synchronous": 3, "foreign_keys": 1}
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_fingerprints_depend_on_the_key() -> None:
    digests = np.arange(64, dtype=np.uint8).reshape(2, 32)
    one, other = (list(fingerprints(digests, key * 32)) for key in (b"a", b"b"))
    assert len(set(one) | set(other)) == 4 and list(fingerprints(digests[::-1], b"a" * 32)) == one[::-1]


@pytest.mark.parametrize("content", [b"", b"not a database, only some words" * 99, b"SQLite format 3\0" + b"\0" * 4000])
def test_a_file_that_is_not_a_ledger_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match="notes.txt.*is not a privacy ledger; name another"):
        Ledger(path)
    assert path.read_bytes() == content


def test_another_program_s_database_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "other.db")
    db.execute("CREATE TABLE secret (key BLOB)")
    db.close()
    with pytest.raises(InputError, match="is not a privacy ledger"):
        Ledger(tmp_path / "other.db")


@pytest.mark.parametrize(
    "change, words",
    [
        ("PRAGMA user_version = 99", "made by a newer Sfumato"),
        ("DELETE FROM secret", "its key is missing"),
        ("DELETE FROM totals", "is damaged"),
        ("UPDATE totals SET relation = 'nobody'", "is damaged"),
        ("UPDATE costs SET mu = 'much'", "run in the privacy ledger is damaged"),
        ("DELETE FROM costs", "run in the privacy ledger is damaged"),
        ("DROP TABLE charges", "is damaged"),
    ],
)
def test_a_ledger_of_another_shape_is_refused(tmp_path: Path, change: str, words: str) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        reserve(ledger)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(change)
    db.close()
    with pytest.raises(InputError, match=words), Ledger(path) as ledger:
        reserve(ledger)


def test_flipped_bytes_never_give_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        reserve(ledger, 300)
    whole, chance, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(150):
        broken = bytearray(whole)
        start = chance.randrange(len(whole))
        broken[start : start + 200] = chance.randbytes(len(broken[start : start + 200]))
        path.write_bytes(broken)
        try:
            with Ledger(path) as ledger:
                ledger.show("scans")
                reserve(ledger, 300)
        except SfumatoError as error:
            assert "ledger" in str(error) or "account" in str(error)
            refused += 1
    assert refused > 10


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "ledger.sqlite", tmp_path / "file" / "deep" / "ledger.sqlite"):
        with pytest.raises(InputError, match="No privacy ledger can be made at .*--ledger"):
            Ledger(path)
    with pytest.raises(InputError, match="cannot be opened"):
        Ledger(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="cannot be opened"):
        Ledger(tmp_path / "dangling")


def test_a_read_only_ledger_can_be_shown_but_not_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        reserve(ledger)

    def connect(path: Path, patience: float) -> sqlite3.Connection:
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)

    monkeypatch.setattr("sfumato.ledger.schema._connect", connect)  # file modes do not bind root
    with Ledger(path) as ledger:
        assert len(ledger.show("scans", np.zeros((1, 32), np.uint8))["history"]) == 1
        with pytest.raises(InputError, match="or its folder is read-only"):
            reserve(ledger)


@pytest.mark.skipif(os.geteuid() == 0, reason="file modes do not bind root")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="No privacy ledger can be made"):
        Ledger(tmp_path / "ledger.sqlite")
    tmp_path.chmod(0o700)


def test_a_full_disk_refuses_the_run_and_spends_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        reserve(ledger)
        with ledger._store.reading() as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match="the disk is full"):
            reserve(ledger, 5000)
        assert len(ledger.show("scans")["history"]) == 1


def test_a_locked_ledger_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path, patience=0.2) as ledger:
        reserve(ledger)
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="locked by another process"):
            reserve(ledger)
        assert other.execute("PRAGMA busy_timeout").fetchone()[0] == 0  # the ledger's own patience, and not this one
        assert ledger._store._db.execute("PRAGMA busy_timeout").fetchone()[0] == 200
        other.execute("ROLLBACK")
        other.close()
        reserve(ledger)
        assert len(ledger.show("scans")["history"]) == 2


def test_work_grows_with_the_records_and_no_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in steps of the database's own machine: a search through all rows for each row would take 400 times."""
    steps, connect = [0], schema._connect

    def counting(*given: object) -> sqlite3.Connection:
        db = connect(*given)
        db.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 100)
        return db

    def work(count: int) -> int:
        steps[0] = 0
        with Ledger(tmp_path / f"{count}.sqlite") as ledger:
            reserve(ledger, count)
            reserve(ledger, count, name="renamed", first=count - 1)
            assert len(ledger.show("scans")["history"]) == 2
            with ledger._store.reading() as db:
                assert db.execute("SELECT count(*) FROM fingerprints").fetchone()[0] == 2 * count - 1
        return steps[0]

    monkeypatch.setattr(schema, "_connect", counting)
    few = work(2_000)
    assert few > 100 and work(40_000) < 30 * few


VERSION_1 = """
PRAGMA application_id = 0x53464D54;
PRAGMA user_version = 1;
CREATE TABLE secret (key BLOB NOT NULL CHECK (length(key) = 32));
CREATE TABLE accounts (account INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, opened TEXT NOT NULL);
CREATE TABLE fingerprints (
    print BLOB NOT NULL, account INTEGER NOT NULL REFERENCES accounts, PRIMARY KEY (print, account)
) WITHOUT ROWID;
CREATE TABLE totals (
    total INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts, time TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, relation TEXT NOT NULL, unit TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('custodian', 'first run'))
);
CREATE TABLE runs (
    run TEXT PRIMARY KEY, time TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL, method TEXT NOT NULL,
    plan_json TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('reserved', 'committed')), token TEXT NOT NULL
);
CREATE TABLE costs (
    run TEXT NOT NULL REFERENCES runs, relation TEXT NOT NULL, mu REAL CHECK (mu >= 0), slack REAL CHECK (slack >= 0),
    PRIMARY KEY (run, relation)
);
CREATE TABLE charges (
    account INTEGER NOT NULL REFERENCES accounts, run TEXT NOT NULL REFERENCES runs,
    epsilon REAL NOT NULL, delta REAL NOT NULL, relation TEXT NOT NULL, PRIMARY KEY (account, run)
);
INSERT INTO secret VALUES (x'0000000000000000000000000000000000000000000000000000000000000000');
"""
HELD = '{"guarantee": {"relation": "add-remove"}, "events": [{"held": true}]}'
PLAIN = '{"guarantee": {"relation": "add-remove"}, "events": [{"mechanism": "gaussian"}]}'


def version_1(path: Path, *runs: tuple[str, float, float]) -> Path:
    """A ledger as the first version wrote it, with one replace-one account and runs of (plan, mu, slack)."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(VERSION_1)
    if runs:
        db.execute("INSERT INTO accounts VALUES (1, 'scans', '2025-03-02T10:00:00Z')")
        total = (1, 1, "2025-03-02T10:00:00Z", 9.0, 1e-5, "replace-one", "record", "custodian")
        db.execute("INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?, ?, ?)", total)
    for number, (plan, mu, slack) in enumerate(runs):
        run = (f"r{number}", "2025-03-03T10:00:00Z", "scans", "record", "m", plan, "committed", "t")
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", run)
        for relation in Relation:
            db.execute("INSERT INTO costs VALUES (?, ?, ?, ?)", (run[0], relation, mu, slack))
        db.execute("INSERT INTO charges VALUES (1, ?, ?, 1e-5, 'replace-one')", (run[0], epsilon_of(1e-5, mu)))
    db.close()
    return path


def test_an_older_ledger_is_brought_up_to_date_once_and_loses_nothing(tmp_path: Path) -> None:
    path = version_1(tmp_path / "l", (PLAIN, 0.2, 0.0))
    for _ in range(2):
        with Ledger(path) as ledger:
            assert ledger.made == "2025-03-02"
            shown = ledger.show("scans")
            assert (shown["mu"], len(shown["history"]), shown["total"]["epsilon"]) == (0.2, 1, 9.0)
            assert len(ledger.told("scans")["runs"]) == 1
    with Ledger(path) as ledger:
        reserve(ledger)
        assert len(ledger.show("scans")["history"]) == 2


def test_an_older_ledger_without_a_date_says_so(tmp_path: Path) -> None:
    with Ledger(version_1(tmp_path / "l")) as ledger:
        assert ledger.made is None


def test_an_older_replace_one_account_is_charged_for_both_parts(tmp_path: Path) -> None:
    with Ledger(version_1(tmp_path / "l", (HELD, 0.2, 0.0))) as ledger:
        shown = ledger.show("scans")
        assert shown["mu"] == 0.4 and shown["spent"] == pytest.approx(epsilon_of(1e-5, 0.4))
        assert shown["history"][0]["epsilon"] == pytest.approx(epsilon_of(1e-5, 0.4))
    with Ledger(version_1(tmp_path / "m", (HELD, 0.2, 1e-7))) as ledger:
        assert ledger.show("scans")["spent"] is None and ledger.show("scans")["remaining"] == 0
        with pytest.raises(SfumatoError):
            reserve(ledger)


def old_ledger(path: Path) -> None:
    """A ledger as the first version left it, with one run under way and one finished."""
    assert APPLICATION == 1397116244
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(VERSION_1)
    db.execute("INSERT INTO accounts VALUES (1, 'scans', '2025-01-01T00:00:00Z')")
    db.execute(
        "INSERT INTO totals VALUES (1, 1, '2025-01-01T00:00:00Z', 5.0, 1e-5, 'add-remove', 'record', 'custodian')"
    )
    for run, status in (("a", "reserved"), ("b", "committed")):
        row = (run, "2025-01-01T00:00:00Z", "scans", "record", "m", "{}", status, f"token of {run}")
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT INTO costs VALUES (?, 'add-remove', 0.1, 0.0)", (run,))
        db.execute("INSERT INTO charges VALUES (1, ?, 0.3, 1e-5, 'add-remove')", (run,))
    db.close()


def test_an_old_ledger_is_kept_and_its_reservations_stay_spent(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    old_ledger(path)
    for _ in range(2):  # the second time there is nothing to do
        with Ledger(path) as ledger:
            shown = ledger.show("scans")
            assert [(run["run"], run["status"]) for run in shown["history"]] == [("a", "begun"), ("b", "committed")]
            assert shown["spent"] == pytest.approx(epsilon_of(1e-5, 0.1 * 2**0.5)) and ledger.unbegun() == []
            assert not ledger.give_back("a", "token of a")
    with Ledger(path) as ledger:
        made = reserve(ledger)
        ledger.resume("a", "token of a", "fresh")
        assert ledger.give_back(made.run, made.token) and ledger.holds("a", "fresh")
        with ledger._store.reading() as db:
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
            assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
            assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_migration_that_is_stopped_leaves_the_old_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.sqlite"
    old_ledger(path)
    before = path.read_bytes()
    monkeypatch.setattr(migrate, "RUNS", "(nonsense")
    with pytest.raises(InputError):
        Ledger(path)
    assert path.read_bytes() == before
