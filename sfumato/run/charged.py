"""A plan that is paid for: reserved in the ledger of the data before the first crossing, committed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.data.private import PrivateImages
from sfumato.errors import Interrupted, SfumatoError
from sfumato.privacy.accounts import Accounts, default_path
from sfumato.privacy.charge import account_name, digests_of, is_named
from sfumato.privacy.plan import Plan
from sfumato.run.job import Job
from sfumato.types import DataSpec


def open_accounts(spec: DataSpec, ledger: str | Path | None) -> Accounts:
    """The ledger of the data; sets that are public as a whole get a throw-away one unless a file is named."""
    return Accounts(ledger or (None if spec.public else default_path()))


@dataclass(frozen=True)
class Charge:
    """A reservation that this process holds."""

    job: Job
    accounts: Accounts
    box: PrivateImages

    def check(self) -> None:
        """Raise if the run was resumed elsewhere."""
        self.job.check(self.accounts)

    def finish(self) -> None:
        """Commit, and delete every private file of the run."""
        self.job.finish(self.accounts)

    def others(self) -> dict[str, Any] | None:
        """Other runs under the name of these data, for the statement; None where the ledger is thrown away.

        Which accounts share a record with the data is not asked: an answer would tell of that record. Data that go
        by their content are not spoken of at all.
        """
        if self.accounts.throw_away:
            return None
        if not is_named(self.box):
            return {"named": False}
        told = self.accounts.told(account_name(self.box))
        return told | {"runs": [run for run in told["runs"] if run["run"] != self.job.manifest["run"]]}


@contextmanager
def charged(
    plan: Plan, box: PrivateImages, job: Job, ledger: str | Path | None = None, *, resumable: bool = True
) -> Iterator[Charge]:
    """Reserve `plan`, or take over the reservation of a resumed job; refused plans leave nothing behind."""
    accounts = open_accounts(box.spec, ledger)
    try:
        _enter(job, accounts, plan, box)
        yield Charge(job, accounts, box)
    except (Interrupted, KeyboardInterrupt) as stopped:
        if not resumable:
            job.discard()
            raise Interrupted(
                "Stopped. What was reserved stays spent; this kind of run cannot be resumed."
            ) from stopped
        how = "--resume " if job.manifest["request"] else "resume="
        raise Interrupted(f"Stopped. Nothing is lost: go on with {how}{job.folder.name}") from stopped
    finally:
        job.close()
        accounts.close()


def _enter(job: Job, accounts: Accounts, plan: Plan, box: PrivateImages) -> None:
    try:
        job.enter(accounts, plan, account_name(box), digests_of(box), is_named(box))
    except SfumatoError:
        if not (job.folder / "checkpoint.safetensors").exists():
            job.discard()
        raise
