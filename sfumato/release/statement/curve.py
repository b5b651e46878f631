"""The privacy curve, epsilon against delta, as inline SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sfumato.release.statement.numbers import epsilon, show

if TYPE_CHECKING:
    from markupsafe import Markup

Point = tuple[float, float]  # delta, epsilon
WIDTH = 560
HEIGHT = 320
LEFT = 52
RIGHT = 18
TOP = 26
BOTTOM = 48


def curve_points(guarantee: dict[str, Any]) -> list[Point]:
    """The curve in order of delta: computed where mu says all, otherwise as the plan gave it."""
    stated = (float(guarantee["delta"]), float(guarantee["epsilon"]))
    if guarantee.get("mu") is None:
        return sorted({stated, *((float(d), float(e)) for d, e in guarantee["curve"] if 0 < d < 1)})
    from sfumato.accounting.gaussian import epsilon_of

    low = min(-10.0, math.floor(math.log10(stated[0])) - 1)
    deltas = [10 ** (low + step * (-2 - low) / 64) for step in range(65)]
    return [(delta, epsilon_of(delta, guarantee["mu"])) for delta in deltas]


def ticks(top: float) -> list[float]:
    """Four to eight round numbers from 0 to beyond the top.

    >>> ticks(1.4)
    [0.0, 0.5, 1.0, 1.5]
    """
    rough = max(top, 1e-6) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    return [round(step * number, 10) for number in range(math.ceil(top / step - 1e-9) + 1)]


def curve_svg(guarantee: dict[str, Any]) -> Markup:
    """An SVG drawing with the stated point marked. All text in it is ours or a number."""
    from markupsafe import Markup

    points = curve_points(guarantee)
    stated = (float(guarantee["delta"]), float(guarantee["epsilon"]))
    rows = ticks(max(eps for _, eps in [*points, stated]))
    low = math.floor(math.log10(min(points[0][0], stated[0])) + 1e-9)
    high = max(math.ceil(math.log10(max(points[-1][0], stated[0])) - 1e-9), low + 1)

    def place(point: Point) -> Point:
        across = (math.log10(point[0]) - low) / (high - low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - point[1] / rows[-1] * (HEIGHT - TOP - BOTTOM)

    parts = [*_rows(rows, place, 10.0**low), *_columns(low, high, place), *_line(points, place), *_mark(stated, place)]
    label = f"Epsilon against delta; stated: epsilon {epsilon(stated[1])} at delta {show(stated[0])}"
    return Markup(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _text(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{words}</text>'


def _rows(rows: list[float], place: Any, delta: float) -> list[str]:
    heights = [(row, place((delta, row))[1]) for row in rows]
    lines = [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>' for _, y in heights]
    names = [_text(LEFT - 10, y + 4, f"{row:g}", "end") for row, y in heights]
    return [*lines, *names, _text(8, 14, "ε", "start", "axis")]


def _columns(low: int, high: int, place: Any) -> list[str]:
    every = max(1, round((high - low) / 5))
    names = []
    for power in range(low, high + 1, every):
        minus = "−" if power < 0 else ""
        raised = f'10<tspan dy="-5" font-size="10">{minus}{abs(power)}</tspan>'
        names.append(_text(place((10.0**power, 0.0))[0], HEIGHT - BOTTOM + 22, raised, "middle"))
    return [*names, _text(WIDTH - RIGHT, HEIGHT - 6, "δ", "end", "axis")]


def _line(points: list[Point], place: Any) -> list[str]:
    places = [place(point) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    floor = HEIGHT - BOTTOM
    area = f"{places[0][0]:.1f},{floor} {path} {places[-1][0]:.1f},{floor}"
    return [f'<polygon points="{area}" class="haze"/>', f'<polyline points="{path}" class="curve"/>']


def _mark(stated: Point, place: Any) -> list[str]:
    x, y = place(stated)
    down = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{HEIGHT - BOTTOM}" class="drop"/>'
    # The curve falls: above it on the right, or beneath it on the left, there is room.
    side, across, lower = ("start", 9, -12) if x < WIDTH * 0.68 else ("end", -10, 24)
    words = f"ε = {epsilon(stated[1])}, δ = {show(stated[0])}"
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" class="mark"/>'
    return [down, dot, _text(x + across, y + lower, words, side, "stated")]
