"""Methods, sorted into families: one file, one algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.methods.registry import RECOMMENDED, RELEASABLE, family_of, find, names

if TYPE_CHECKING:
    from sfumato.methods.base import Method as Method

__all__ = ["RECOMMENDED", "RELEASABLE", "Method", "family_of", "find", "names"]


def __getattr__(name: str) -> Any:
    """`Method` is imported on first use: it brings torch, and a mistyped name is refused without."""
    if name != "Method":
        raise AttributeError(f"module 'sfumato.methods' has no attribute '{name}'")
    from sfumato.methods.base import Method

    return Method
