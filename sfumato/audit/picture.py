"""The trade-off curve, measured against claimed, as a PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.audit.games.step import Played

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#222222"
CLAIM = "#2c6e9b"
SEEN = "#e08e2b"
WRONG = "#b3261e"


def tradeoff(games: Sequence[tuple[str, Played]], title: str) -> bytes:
    """One panel a game: the least false negatives that the claim allows, what was measured, and the bounded point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(games), 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title}: measured against claimed", color=INK)
    for place, (name, game) in enumerate(games, 1):
        _panel(figure.add_subplot(1, len(games), place), name, game)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _panel(axes: Axes, name: str, game: Played) -> None:
    at = np.concatenate([np.geomspace(1e-5, 0.02, 60), np.linspace(0.021, 1, 120)])
    allowed = [game.curve.fnr(float(a)) for a in at]
    colour = SEEN if game.ok else WRONG
    axes.fill_between(at, 0, allowed, color=CLAIM, alpha=0.12, linewidth=0, label="refutes the claim")
    axes.plot(at, allowed, color=CLAIM, label="claimed: no fewer errors than this")
    axes.plot([0, 1], [1, 0], color="#bbbbbb", linestyle=":", label="no privacy loss at all")
    x, y = zip(*game.points, strict=True)
    axes.plot(x, y, color=colour, linestyle="--", linewidth=1.2, label="measured")
    axes.plot([game.errors.fpr], [game.errors.fnr], "o", color=colour, label="upper bounds of both errors")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="false positives", ylabel="false negatives", aspect="equal")
    axes.set_title(f"{name}: {'the claim stands' if game.ok else 'refuted'}", fontsize=10, color=INK)
    axes.legend(fontsize=8, frameon=False)
