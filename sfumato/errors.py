"""The errors a caller may want to catch; each ends a command with its own exit status."""

from __future__ import annotations


class SfumatoError(Exception):
    """One sentence for the user: what is wrong, where, and the remedy."""

    exit_code = 1


class InputError(SfumatoError, ValueError):
    """Data, a file or a setting is wrong. Raised before any budget is spent."""

    exit_code = 2


class OverBudget(SfumatoError):
    """A crossing or a run would spend more than was planned or granted."""

    exit_code = 3


class AuditFailed(SfumatoError):
    """A mechanism was caught doing something other than what it declares."""

    exit_code = 4


class RankLost(SfumatoError):
    """A process of a run on several ranks is gone; the run can be resumed."""

    exit_code = 5


class Unfinished(SfumatoError):
    """A run failed after its first crossing: what was reserved stays spent, and the run can be resumed."""

    exit_code = 6


class Interrupted(SfumatoError):
    """Stopped by the user; a checkpoint is there to resume from."""

    exit_code = 130
