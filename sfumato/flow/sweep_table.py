"""What a sweep found: one table with mean and spread over seeds, as JSON and CSV, and one page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.evaluate.drawings import trade_svg
from sfumato.evaluate.report import render, write_page
from sfumato.evaluate.results import over_seeds

FORMAT = "sfumato-sweep/1"
JSON = "results.json"
CSV = "results.csv"
PAGE = "comparison.html"
COLUMNS = ("data", "method", "settings", "epsilon", "seed", "state", "accuracy", "seconds", "tries", "why", "id")
SAME = ("data", "method", "settings", "epsilon")  # what the seeds of a row have in common


def results(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every run, and a row for what differs in more than the seed: best first, those without a number last."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault(json.dumps([run["asked"][name] for name in SAME], sort_keys=True), []).append(run)
    rows = [_row(group) for group in groups.values()]
    rows.sort(key=lambda row: -row["accuracy"]["mean"] if row["accuracy"] else 1.0)
    states = [run["state"] for run in runs]
    return {
        "format": FORMAT,
        "runs": [dict(run) for run in runs],
        "rows": [{"number": number, **row} for number, row in enumerate(rows, 1)],
        "states": {state: states.count(state) for state in sorted(set(states))},
        "judged": {name: runs[0]["asked"][name] for name in ("classifier", "judge")},
    }


def _row(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean, standard deviation and interval over the seeds that came to a number."""
    asked = runs[0]["asked"]
    values = [run["accuracy"] for run in runs if "accuracy" in run]
    accuracy = None
    if values:
        accuracy = asdict(over_seeds("accuracy", values, low=0.0, high=1.0)) | {"values": values}
        accuracy["std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {
        **{name: asked[name] for name in SAME},
        "delta": asked["delta"],
        "seeds": len(runs),
        "accuracy": accuracy,
        "seconds": sum(run.get("seconds", 0.0) for run in runs),
        "why": next((run["why"] for run in runs if run.get("why")), ""),
        "comparable": True,
    }


def write_results(place: Path, found: Mapping[str, Any]) -> None:
    """Table and page into the folder of the sweep; the same runs give the same bytes."""
    kept = {name: part for name, part in found.items() if name not in ("made", "out")}
    write_page(place / JSON, json.dumps(kept, indent=1, allow_nan=False) + "\n", False)
    write_page(place / CSV, _csv(found["runs"]), False)
    drawn = [row for row in found["rows"] if row["accuracy"]]
    one = len({row["data"] for row in drawn}) == 1  # accuracies of different sets are no one picture
    plot = trade_svg(drawn, None) if one else None
    write_page(place / PAGE, render("sweep.html.j2", **kept, plot=plot, settings_of=settings_of), False)


def _csv(runs: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(_lines(runs))
    return text.getvalue()


def _lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    for run in runs:
        flat = run["asked"] | run | {"settings": settings_of(run["asked"]["settings"])}
        yield [flat.get(name, "") for name in COLUMNS]


def settings_of(settings: Mapping[str, str]) -> str:
    """Settings in a line.

    >>> settings_of({"steps": "4", "width": "8"})
    'steps=4, width=8'
    """
    return ", ".join(f"{name}={value}" for name, value in settings.items())
