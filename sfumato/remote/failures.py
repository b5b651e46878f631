"""Failures as words: a kind and a sentence cross, and the other side raises the same."""

from __future__ import annotations

from sfumato import errors
from sfumato.remote.names import WireError

KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        WireError,
        *(errors.InputError, errors.OverBudget, errors.AuditFailed, errors.RankLost, errors.Unfinished),
        *(errors.Interrupted, ValueError, TypeError, MemoryError, ImportError, RuntimeError),
    )
}


def in_words(error: BaseException) -> tuple[str, str]:
    """The kind of a failure, as near as it is known to both sides, and what it says."""
    kind = next((k.__name__ for k in type(error).__mro__ if k.__name__ in KINDS), "RuntimeError")
    told = str(error) or type(error).__name__
    return kind, told if kind != "RuntimeError" or type(error) is RuntimeError else f"{type(error).__name__}: {told}"


def of_private_side(error: BaseException) -> tuple[str, str]:
    """The same for one that was raised near records: only sentences of ours are told, since others may quote them."""
    if isinstance(error, errors.SfumatoError):
        return in_words(error)
    return "RuntimeError", f"The private side could not answer ({type(error).__name__}); nothing crossed."


def raised(kind: str, sentence: str) -> Exception:
    """What the other side raised."""
    return KINDS.get(kind, RuntimeError)(sentence)
