"""How things look on a terminal: text is shown as it is, never as markup, and fits eighty columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_MOST_CLASSES = 20


@dataclass(frozen=True)
class Answer:
    """What a verb found: for programs, and for people."""

    value: Any
    show: Callable[[Console], None]
    as_json: bool

    def give(self) -> None:
        """Print it on standard output."""
        if self.as_json:
            print(json.dumps(finite(self.value), indent=2, allow_nan=False))
        else:
            self.show(console())


def console(stderr: bool = False) -> Console:
    """Standard output, or where questions and progress go; plain where it is no terminal."""
    from rich.console import Console

    class Out(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Out(markup=False, emoji=False, highlight=False, stderr=stderr)


def finite(value: Any) -> Any:
    """The value with None for what JSON cannot say: infinity and NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def plain(text: object) -> str:
    """Text from outside without control characters, which could repaint a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def one_line(text: str) -> str:
    """A sentence on one line."""
    return plain(" ".join(text.split()))


def number(value: float | None, rounding: str = ROUND_HALF_EVEN) -> str:
    """A number in four digits.

    >>> number(3.73063), number(60000.0), number(1e-05), number(None)
    ('3.731', '60000', '1e-05', 'unknown')
    """
    if value is None:
        return "unknown"
    if not math.isfinite(value):
        return str(value)
    dust = {ROUND_CEILING: -1e-9, ROUND_FLOOR: 1e-12}.get(rounding, 0.0)  # of root searches and of binary fractions
    digits = Context(prec=4, rounding=rounding).create_decimal_from_float(value * (1 + dust))
    return f"{float(digits):.10g}"


def at_most(value: float | None) -> str:
    """An epsilon, never shown smaller than it is.

    >>> at_most(0.9999999993), at_most(1.00001)
    ('1', '1.001')
    """
    return number(value, ROUND_CEILING)


def at_least(value: float | None) -> str:
    """What remains, never shown larger than it is.

    >>> at_least(1.63999), at_least(0.3)
    ('1.639', '0.3')
    """
    return number(value, ROUND_FLOOR)


def names(classes: Sequence[str]) -> str:
    """Class names in a row, the first ones of many.

    >>> names(["ill", "well"])
    'ill, well'
    """
    shown = ", ".join(plain(name) for name in classes[:_MOST_CLASSES])
    return shown if len(classes) <= _MOST_CLASSES else f"{shown} and {len(classes) - _MOST_CLASSES} more"


def pairs(rows: Iterable[tuple[str, str]]) -> Table:
    """Two columns: what it is, and what it says."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, Text(plain(value)))
    return grid


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], whole: Sequence[str] = ()) -> Table:
    """A titled table; the cells of `whole` columns are never broken into lines."""
    from rich import box
    from rich.table import Table

    grid = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for column in columns:
        grid.add_column(column, overflow="fold", no_wrap=column in whole)
    for row in rows:
        grid.add_row(*(plain(cell) for cell in row))
    return grid


def warned(out: Console, warnings: Iterable[str]) -> None:
    """Warnings, one a line, in yellow."""
    for warning in warnings:
        out.print(_text(f"warning: {plain(warning)}", "yellow"))


def path_line(out: Console, name: str, path: object) -> None:
    """A path that can be copied from the terminal: never broken into lines."""
    out.print(_text(f"{name:<11}", "bold"), plain(path), sep="", soft_wrap=True)


def _text(words: str, style: str) -> Text:
    from rich.text import Text

    return Text(words, style=style)
