"""Settings of a method: a default, a range, a unit and one line of description, declared with the field."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

from sfumato.errors import InputError, did_you_mean

T = TypeVar("T")
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
COUNT = 1_000_000  # the most that a count may be, where nothing else is said


@dataclass(frozen=True)
class Setting:
    """What is declared about a field beside its type and default."""

    about: str
    low: float | None = None  # included
    high: float | None = None  # included
    above: float | None = None  # not included
    below: float | None = None  # not included
    multiple: int = 1
    choices: tuple[str, ...] = ()
    unit: str = ""

    def range(self) -> str:
        """The allowed values in words.

        >>> Setting("of what", low=1, below=10, multiple=2).range()
        'from 1, below 10, a multiple of 2'
        """
        if self.choices:
            return " or ".join(self.choices)
        parts = [
            f"{word} {limit:g}"
            for word, limit in (("from", self.low), ("above", self.above), ("up to", self.high), ("below", self.below))
            if limit is not None
        ]
        return ", ".join(parts + [f"a multiple of {self.multiple}"] * (self.multiple > 1))

    def allows(self, value: Any) -> bool:
        """Whether a value is within the range; nothing that is not a number is within one."""
        if self.choices:
            return value in self.choices
        if isinstance(value, (str, bool)):
            return True
        return (
            math.isfinite(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.multiple == 1 or value % self.multiple == 0)
        )


def setting(default: T, about: str, **limits: Any) -> T:
    """A field of a method's dataclass: its default, one line about it, and the limits of `Setting`."""
    return field(default=default, metadata={"setting": Setting(about, **limits)})


def count(default: int, about: str, low: int = 1, high: int = COUNT, **limits: Any) -> int:
    """A field that counts something."""
    return setting(default, about, low=low, high=high, **limits)


def declared(cls: type[Any]) -> dict[str, Setting]:
    """What a class declares about its settings."""
    return {f.name: f.metadata["setting"] for f in fields(cls) if "setting" in f.metadata}


def refuse_outside(method: Any) -> None:
    """Refuse a value outside of its field's range, naming both."""
    for name, about in declared(type(method)).items():
        value = getattr(method, name)
        if not about.allows(value):
            raise ValueError(f"Expected {name} {about.range()}, found {name}={value}.")


def parse(cls: type[Any], given: Mapping[str, str]) -> dict[str, Any]:
    """`--set field=value`: each text as its field's type.

    >>> from sfumato.methods.embedding.dp_merf import DPMERF
    >>> parse(DPMERF, {"features": "500", "bandwidth": "0.5"})
    {'features': 500, 'bandwidth': 0.5}
    """
    known = cls().settings()
    types = get_type_hints(cls)
    refuse_unknown(given, known)
    return {name: _value(name, text, types[name]) for name, text in given.items()}


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first name that is no setting, with the one that was perhaps meant, or all that there are."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, otherwise=f"there are {', '.join(known)}.")
            raise InputError(f"Expected a setting, found '{name}'; {hint}")


def _value(name: str, text: str, kind: type) -> Any:
    try:
        return TRUTH[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError, OverflowError) as error:
        raise InputError(f"Expected --set {name}=VALUE of type {kind.__name__}, found '{text}'.") from error
