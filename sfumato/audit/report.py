"""What an audit found: a table for people, rows for programs, a picture of the trade-off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.audit.games.step import Played
from sfumato.audit.recording.subject import Finding
from sfumato.errors import AuditFailed

Verdict = Literal["pass", "fail"]


@dataclass(frozen=True, eq=False)
class Report:
    """The findings about one thing. A pass says that nothing was found, not that there is nothing."""

    title: str
    rows: tuple[Finding, ...]
    games: tuple[tuple[str, Played], ...] = ()
    device: str = "cpu"  # on which all of it was computed

    @property
    def verdict(self) -> Verdict:
        """Fail if any check fails."""
        return "pass" if all(row.ok for row in self.rows) else "fail"

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The rows that convict."""
        return tuple(row for row in self.rows if not row.ok)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [
            {
                "check": r.check,
                "level": r.level,
                "verdict": "pass" if r.ok else "fail",
                "detail": r.detail,
                "device": self.device,
            }
            for r in self.rows
        ]
        return {"title": self.title, "verdict": self.verdict, "rows": rows}

    def picture(self) -> bytes | None:
        """Measured against claimed, as PNG bytes; None where no game was played (level 0)."""
        from sfumato.audit.picture import tradeoff

        return tradeoff(self.games, self.title) if self.games else None

    def require(self) -> Report:
        """The report itself, or `AuditFailed` with the first row that convicts."""
        if self.failed:
            raise AuditFailed(said(self.title, self.failed))
        return self


def said(title: str, failed: Sequence[Finding]) -> str:
    """One sentence about what failed."""
    more = f" ({len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"The audit of {title} failed: {failed[0].check}, {failed[0].detail}{more}."
