"""What an evaluation returns: numbers with their intervals, and a report that becomes JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

import numpy as np

FORMAT = "sfumato-evaluation/1"


@dataclass(frozen=True)
class Measured:
    """A number and its interval: a 95 % t interval over seeds, or a bootstrap interval; `note` says which else."""

    name: str
    mean: float
    low: float
    high: float
    values: tuple[float, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Report:
    """A whole evaluation. It describes private data wherever `touches_private`, and is then internal."""

    sections: dict[str, Any] = field(default_factory=dict)
    touches_private: bool = False
    accesses: int = 0
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; numbers that are not finite become null."""
        return {
            "format": FORMAT,
            "touches_private": self.touches_private,
            "accesses": self.accesses,
            "command": self.command,
            "sections": plain(self.sections),
        }

    def text(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n"


def over_seeds(
    name: str, values: Sequence[float], *, low: float = -math.inf, high: float = math.inf, note: str = ""
) -> Measured:
    """Mean and 95 % t interval over independent repetitions, cut to the range [low, high] of the number.

    One repetition says nothing about the spread: the interval is then the whole range.

    >>> round(over_seeds("a", [1.0, 2.0, 3.0]).high, 2)
    4.48
    """
    x = np.asarray(values, dtype=float)
    mean = float(x.mean())
    if len(x) < 2:
        return Measured(name, mean, float(low), float(high), tuple(map(float, x)), note)
    from scipy.stats import t

    half = float(t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)))
    return Measured(name, mean, float(max(low, mean - half)), float(min(high, mean + half)), tuple(map(float, x)), note)


def plain(value: Any) -> Any:
    """Arrays, dataclasses and numpy numbers as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return str(value)
