"""Bars as inline SVG; all text in them is ours or a number."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from sfumato.release.statement.numbers import epsilon, show

WIDTH, HEIGHT = 600, 28


def stacked(parts: list[tuple[str, float]], label: str) -> Markup:
    """Parts of a whole, from left to right; what is left of it stays empty.

    >>> "22 %" in stacked([("a", 0.22)], "shares")
    True
    """
    at, drawn = 0.0, []
    for number, (name, share) in enumerate(parts):
        wide = max(0.0, min(share, 1.0 - at / WIDTH)) * WIDTH
        words = escape(f"{name}: {100 * share:.0f} %")
        drawn.append(
            f'<rect x="{at:.1f}" y="0" width="{wide:.1f}" height="{HEIGHT}" class="part p{number % 6}">'
            f"<title>{words}</title></rect>"
        )
        at += wide
    frame = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="4" class="frame"/>'
    return Markup(
        f'<svg class="stack" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(drawn)}{frame}</svg>'
    )


def account_bar(account: dict[str, Any]) -> dict[str, Any]:
    """The account of a data set: what each run took of the total, and what is left."""
    total = account["total"]
    runs = [run for run in account["history"] if run["status"] != "returned"]
    if total is None:
        return {"svg": stacked([], "Nothing is granted or spent yet"), "words": "No total is set, nothing is spent."}
    spent, left = account["spent"] or 0.0, account["remaining"] or 0.0
    whole = sum(run["epsilon"] or 0.0 for run in runs) or 1.0
    part = min(1.0, spent / total["epsilon"])
    parts = [(f"{run['method']}, epsilon {epsilon(run['epsilon'])}", part * run["epsilon"] / whole) for run in runs]
    many = f"{len(runs)} run{'s' * (len(runs) != 1)}"
    words = f"epsilon {epsilon(spent)} of {show(total['epsilon'])} spent by {many}; {show(left)} left for one more"
    return {"svg": stacked(parts, words), "words": f"{words}."}
