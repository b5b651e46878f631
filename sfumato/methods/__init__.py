"""Methods, sorted into families: one file, one algorithm."""

from sfumato.methods.base import Method
from sfumato.methods.registry import RELEASABLE, find, names

__all__ = ["RELEASABLE", "Method", "find", "names"]
