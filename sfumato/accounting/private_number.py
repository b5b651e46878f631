"""A number that depends on private data and may not leave."""

from __future__ import annotations

from typing import NoReturn


class PrivateNumber:
    """Holds a value without showing it: no float, no text, no JSON, no comparison, no pickling.

    Even "is it above the budget" is a function of the data, so nothing may branch on it.

    >>> PrivateNumber(0.3, "a diagnostic")
    PrivateNumber(a diagnostic)
    """

    __slots__ = ("_value", "_what")

    def __init__(self, value: float, what: str) -> None:
        self._value = float(value)
        self._what = what

    def reveal(self, reason: str) -> float:
        """The value, for tests and for diagnostics inside the custodian's walls. A reason must be given."""
        if not reason.strip():
            raise ValueError("Expected a reason for revealing a private number.")
        return self._value

    def __repr__(self) -> str:
        return f"PrivateNumber({self._what})"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"Expected nothing to depend on {self!r}: it is a function of private data.")

    __str__ = __repr__
    __float__ = __int__ = __index__ = __bool__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __reduce__ = __getstate__ = _refuse
    __format__ = _refuse
    __hash__ = None  # type: ignore[assignment]
