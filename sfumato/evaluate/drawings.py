"""Small drawings of an evaluation as inline SVG. All text in them is ours, a number, or escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from markupsafe import Markup

Point = tuple[float, float]
TONES = ("#7d5a3f", "#5f7679", "#b07d3c", "#6b5b7d", "#4f7a54", "#a34a3c", "#3f6592", "#8a8578")
LEAST = 1e-3  # left edge of a logarithmic rate
MOST_NAMED = 20  # classes with their names beside a heat map


@dataclass(frozen=True)
class Axes:
    """A frame with a scale on each side; `log` is for x alone."""

    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False
    width: int = 480
    height: int = 400
    left: int = 68
    right: int = 34
    top: int = 30
    bottom: int = 52

    def __call__(self, point: Point) -> Point:
        low, high, at = (math.log10(max(v, 1e-300)) if self.log else v for v in (*self.x, point[0]))
        across = (at - low) / (high - low)
        up = (point[1] - self.y[0]) / (self.y[1] - self.y[0])
        across = min(1.0, max(0.0, across))
        return (
            self.left + across * (self.width - self.left - self.right),
            self.height - self.bottom - up * (self.height - self.top - self.bottom),
        )

    def line(self, points: Sequence[Point]) -> str:
        """Places of a polyline."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self, points))

    def frame(self, xs: Mapping[float, str], ys: Mapping[float, str], x_name: str, y_name: str) -> list[str]:
        """Grid lines, ticks and the names of both axes; the name of y stands above it."""
        parts = []
        for at, words in ys.items():
            x, y = self((self.x[0], at))
            parts += [
                f'<line x1="{x:.1f}" x2="{self.width - self.right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>',
                text(x - 9, y + 4, words, "end"),
            ]
        for at, words in xs.items():
            x, y = self((at, self.y[0]))
            parts.append(text(x, y + 21, words, "middle"))
        return [
            *parts,
            text(4, 15, y_name, "start", "axis"),
            text(self.width - self.right, self.height - 6, x_name, "end", "axis"),
        ]

    def svg(self, parts: Sequence[str], label: str) -> Markup:
        """The whole drawing."""
        from markupsafe import Markup, escape

        head = f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(label)}">'
        return Markup(f"{head}{''.join(parts)}</svg>")


def text(x: float, y: float, words: Any, anchor: str, kind: str = "tick", more: str = "") -> str:
    """Words at a place, escaped."""
    from markupsafe import escape

    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"{more}>{escape(words)}</text>'


def roc_svg(curves: Sequence[Sequence[Point]], ceiling: Sequence[Point] | None, *, log: bool = False) -> Markup:
    """ROC curves in the order of TONES; what lies above the ceiling is shaded."""
    axes = Axes((LEAST, 1.0) if log else (0.0, 1.0), (0.0, 1.0), log)
    ticks = {0.001: "0.1 %", 0.01: "1 %", 0.1: "10 %", 1.0: "100 %"} if log else _percents()
    parts = axes.frame(ticks, _percents(), "false alarms", "members found")
    if ceiling:
        points = [
            (x, y) for x, y in ([] if log else [(0.0, 0.0)]) + [tuple(p) for p in ceiling] if not log or x >= LEAST
        ]
        edge = [(axes.x[0], 1.0), *points, (1.0, 1.0)]
        parts += [
            f'<polygon points="{axes.line(edge)}" class="beyond"/>',
            f'<polyline points="{axes.line(points)}" class="bound"/>',
        ]
    guess = [(float(x), float(x)) for x in (np.geomspace(LEAST, 1, 40) if log else (0, 1))]
    parts.append(f'<polyline points="{axes.line(guess)}" class="chance"/>')
    for at, curve in enumerate(curves):
        shown = [p for p in curve if not log or p[0] >= LEAST]
        parts.append(f'<polyline points="{axes.line(shown)}" class="roc" style="stroke: {TONES[at % len(TONES)]}"/>')
    return axes.svg(parts, "Share of members found against false alarms, for each attack, under the upper bound")


def _percents() -> dict[float, str]:
    return {at / 4: f"{25 * at} %" for at in range(5)}


def confusion_svg(counts: Sequence[Sequence[float]], classes: Sequence[str]) -> Markup:
    """Shares of each true class (rows) by guess (columns), darker for more."""
    shares = shares_of(counts)
    count = len(classes)
    cell = 44 if count <= 12 else 26
    left = 118
    top = 96
    parts = []
    for row, name in enumerate(classes):
        y = top + row * cell
        parts.append(text(left - 8, y + cell / 2 + 4, short(name, 15), "end"))
        x = left + row * cell + cell / 2
        parts.append(text(x, top - 8, short(name, 13), "start", more=f' transform="rotate(-45 {x:.1f} {top - 8})"'))
        for column, share in enumerate(shares[row]):
            parts += _cell(left + column * cell, y, cell, float(share), count <= 12)
    axes = Axes((0, 1), (0, 1), width=left + count * cell + 54, height=top + count * cell + 8)
    return axes.svg(parts, "Which class is taken for which: true class in rows, guess in columns, in percent")


def shares_of(counts: Sequence[Sequence[float]]) -> np.ndarray:
    """Rows that sum to one; a class without test images stays empty."""
    x = np.asarray(counts, dtype=float)
    return np.asarray(x / np.maximum(x.sum(1, keepdims=True), 1e-12))


def _cell(x: float, y: float, size: int, share: float, numbered: bool) -> list[str]:
    red, green, blue = (round(a + (b - a) * share**0.7) for a, b in zip((247, 243, 237), (70, 92, 96), strict=True))
    marks = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{size - 2}" height="{size - 2}" rx="2" '
        f'fill="rgb({red},{green},{blue})"/>'
    ]
    if numbered and round(100 * share) >= 1:
        dark = "#fff" if share > 0.45 else "#2c2926"
        marks.append(
            text(x + size / 2 - 1, y + size / 2 + 4, f"{100 * share:.0f}", "middle", "cell", f' style="fill: {dark}"')
        )
    return marks


def short(name: str, most: int) -> str:
    """A name that fits.

    >>> short("a very long class name", 10)
    'a very lo…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"


def trade_svg(rows: Sequence[Mapping[str, Any]], real: float | None) -> Markup:
    """Accuracy against epsilon; a row that is not comparable is hollow. `rows` have a number, epsilon and accuracy."""
    from sfumato.release.statement.numbers import epsilon

    spent = [float(row["epsilon"]) for row in rows]
    low = min(spent) / 1.8
    high = max(spent) * 1.8
    axes = Axes((low, high), (0.0, 1.0), True, width=640, height=380)
    parts = axes.frame(
        {e: epsilon(e) for e in _apart(spent, high / low)}, _percents(), "ε, smaller is more private", "accuracy"
    )
    if real is not None:
        x, y = axes((low, real))
        parts += [
            f'<line x1="{x:.1f}" x2="{axes.width - axes.right}" y1="{y:.1f}" y2="{y:.1f}" class="drop"/>',
            text(axes.width - axes.right, y - 7, f"trained on real: {100 * real:.1f} %", "end"),
        ]
    for row in rows:
        parts += _dot(axes, row)
    return axes.svg(parts, "Accuracy on real test images against epsilon, one mark a release")


def _apart(values: Sequence[float], ratio: float) -> list[float]:
    """Values far enough apart for their names to be read."""
    kept: list[float] = []
    for value in sorted(set(values)):
        if not kept or math.log(value / kept[-1]) > 0.09 * math.log(ratio):
            kept.append(value)
    return kept


def _dot(axes: Axes, row: Mapping[str, Any]) -> list[str]:
    accuracy = row["accuracy"]
    (x, y), (_, low), (_, high) = (axes((row["epsilon"], accuracy[key])) for key in ("mean", "low", "high"))
    whisker = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="whisker"/>'
    kind = "mark" if row["comparable"] else "hollow"
    return [
        whisker if len(accuracy["values"]) > 1 else "",
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" class="{kind}"/>',
        text(x + 11, y + 5, row["number"], "start", "stated"),
    ]
