"""Measured numbers: those that ship, and a user's own over them; and which cell each belongs to.

A file is JSON: `command`, `machine`, `torch`, `settings` (changes to all of its rows) and `results`, a list of rows
with `recipe` (or `method`), `data`, `epsilon` and, for each protocol, `mean`, `std` and `values`; `network` where it is
not the CNN of the papers that judged, and `synthesis_s`, the seconds of a run; `parts` may hold several such files.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.bench.table import PROTOCOLS, STAND_INS, Cell, Source
from sfumato.errors import InputError

SHIPPED = Path(__file__).parent / "results"
NEUTRAL = {"precision", "moments", "microbatch", "count"}  # rounding, speed and how many images were judged
CNN = "cnn"  # of the papers, which judges the images of all cells
METRICS = {name for protocols in PROTOCOLS.values() for name in protocols}


@dataclass(frozen=True)
class Result:
    """One row of a file: what was run, where, and what came out."""

    recipe: str
    method: str
    data: str
    epsilon: float | None
    settings: dict[str, str]
    values: dict[str, dict[str, Any]]
    refused: str
    as_printed: bool
    command: str
    machine: str
    torch: str
    date: str
    own: bool  # the user's, not shipped
    note: str
    network: str  # that learned from the images
    seconds: float | None  # from reading the data to the last synthetic image; often of runs side by side

    def made_by(self, source: Source) -> bool:
        """Whether this recipe or method made it, the changes aside."""
        same = self.recipe == source.recipe if source.recipe else not self.recipe and self.method == source.method
        return same and self.as_printed == source.as_printed

    def seeds(self) -> int:
        """How many runs."""
        return max((len(v.get("values") or [0]) for v in self.values.values()), default=0)


def read(folder: Path | None = None) -> list[Result]:
    """The user's results in a folder, then those that ship."""
    own = [] if folder is None or not folder.is_dir() else [r for p in sorted(folder.glob("*.json")) for r in load(p)]
    return own + [r for path in sorted(SHIPPED.glob("*.json")) for r in load(path, own=False)]


def load(path: Path, own: bool = True) -> list[Result]:
    """The rows of one file, or one sentence on what is wrong with it."""
    try:
        whole = json.loads(path.read_text())
        parts = whole.get("parts", [whole])
        return [
            _result(row, part, own) for part in parts for row in gathered(part.get("results", part.get("rows", [])))
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path.name} is no file of results ({type(error).__name__}: {error}); mend it or take it out of "
            f"{path.parent.name}/."
        ) from None


def gathered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of single seeds put together by all else that they say; rows of all seeds as they are.

    >>> rows = [{"row": "a", "seed": seed, "fixed": 0.5 + 0.25 * seed} for seed in (0, 1)]
    >>> gathered(rows)[0]["fixed"]["values"]
    [0.5, 0.75]
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for at, row in enumerate(rows):
        single = isinstance(row.get("fixed"), float) and "seed" in row
        known = [row.get(k) for k in ("data", "row", "recipe", "epsilon", "held", "name", "settings")] if single else at
        groups.setdefault(json.dumps(known), []).append(row)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of several seeds. DPAF's game names its rungs; those with a budget are recipes."""
    first = group[0]
    if not isinstance(first.get("fixed"), float):
        return first
    named = [name for name in ("fixed", "paper", "official", "official_last") if any(name in row for row in group)]
    row = first | {name: _spread([r[name] for r in group if name in r]) for name in named}
    if first.get("row") in ("printed", "line-15", "sound") and not first.get("held"):
        alone = {"together": "no"} if first["row"] == "line-15" else {}
        row["recipe"] = f"dpaf-paper-{first['data']}-{first['epsilon']:g}"
        row["settings"] = {**first.get("settings", {}), **alone}
    return row


def _spread(values: list[float]) -> dict[str, Any]:
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
    }


def _result(row: dict[str, Any], part: dict[str, Any], own: bool) -> Result:
    command = str(row.get("command") or part.get("command") or " ; ".join(part.get("commands", [])))
    settings = normal({**part.get("settings", {}), **row.get("settings", {})})
    epsilon = row.get("epsilon")
    return Result(
        recipe=str(row.get("recipe") or (row["name"] if "accuracy" in row else "")),
        method=str(row.get("method") or _given("--method", command)),
        data=str(row.get("data") or part.get("data") or _given("--data", command).split(":")[0]),
        epsilon=None if epsilon is None else float(epsilon),
        settings=settings,
        values=dict(_values(row)),
        refused=str(row.get("refused", "")),
        as_printed=bool(row.get("as_printed") or row.get("stamp")),
        command=command,
        machine=str(row.get("machine") or part.get("machine", "unknown")),
        torch=str(row.get("torch") or part.get("torch", "")),
        date=str(row.get("date") or part.get("date", "")),
        own=own,
        note=str(row.get("note") or part.get("note", "")),
        network=str(row.get("network", CNN)),
        seconds=float(took["mean"]) if isinstance(took := row.get("synthesis_s"), dict) else None,
    )


def _given(option: str, command: str) -> str:
    found = re.search(rf"{option} (\S+)", command)
    return found[1] if found else ""


def _values(row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every measured number by its protocol; the classifiers' files have one, under `accuracy`."""
    if isinstance(row.get("accuracy"), float):
        yield "fixed", {"mean": row["accuracy"], "std": row.get("std"), "values": list(row["values"])}
    for name in METRICS & set(row):
        if isinstance(row[name], dict):
            yield name, {"mean": float(row[name]["mean"]), "std": row[name]["std"], "values": list(row[name]["values"])}


@dataclass(frozen=True)
class Match:
    """A result in its cell, with all that makes it another number than the cell asks for."""

    source: Source
    result: Result
    changes: dict[str, str]
    stand_in: str

    @property
    def exact(self) -> bool:
        """Whether it is what the cell asks for: the paper's settings on the paper's set."""
        return not (self.stand_in or self.source.ours or set(self.changes) - NEUTRAL)


def matched(cell: Cell, results: Sequence[Result], rivals: Sequence[Cell] = ()) -> list[Match]:
    """The best result of each source of a cell: the fewest changes, then the user's, the most seeds, the newest.

    Of `rivals`, the cells of a table, a result belongs to the one that asks for most of its changes.
    """
    found = [_best(cell, source, results, rivals) for source in cell.sources]
    return [match for match in found if match is not None]


def _best(cell: Cell, source: Source, results: Sequence[Result], rivals: Sequence[Cell]) -> Match | None:
    def order(match: Match) -> tuple[Any, ...]:
        result = match.result
        changed = len(set(match.changes) - NEUTRAL)
        return not result.refused, -changed, not match.stand_in, result.own, result.seeds(), result.date or "undated"

    fits = [m for r in results if (m := _fit(cell, source, r)) is not None and not _claimed(m, cell, rivals)]
    return max(fits, key=order, default=None)


def _fit(cell: Cell, source: Source, result: Result) -> Match | None:
    stand_in, size = STAND_INS.get(cell.data, ("", None))
    if not result.made_by(source) or not same_epsilon(cell.epsilon, result.epsilon):
        return None
    if cell.metric == "accuracy" and result.network != CNN:
        return None
    if cell.data and result.data not in (cell.data, stand_in):
        return None
    replaced = result.data if result.data != cell.data else ""
    if replaced and result.settings.get("size") != (str(size) if size else None):
        return None
    there = normal(source.on_stand_in) | ({"size": str(size)} if size else {}) if replaced else {}
    wanted = normal(source.settings) | there
    if any(result.settings.get(field) != value for field, value in wanted.items() if field not in there):
        return None
    changes = {field: value for field, value in result.settings.items() if wanted.get(field) != value}
    known = result.refused or set(PROTOCOLS[cell.metric]) & set(result.values)
    return Match(source, result, changes, replaced) if known else None


def normal(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as texts that can be compared: a number has one spelling.

    >>> normal({"sigma": "5000.0", "clip": 1e-05, "rule": "soft"})
    {'sigma': '5000', 'clip': '1e-05', 'rule': 'soft'}
    """
    return {str(field): _spelt(str(value)) for field, value in settings.items()}


def _spelt(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def same_epsilon(asked: float | None, found: float | None) -> bool:
    """Infinity is written as nothing in a file."""
    if asked is None or math.isinf(asked):
        return found is None or math.isinf(found)
    return found is not None and math.isclose(asked, found)


def _claimed(match: Match, cell: Cell, rivals: Sequence[Cell]) -> bool:
    """Whether another cell asks for more of the changes that this result has."""
    own = len(match.source.settings)
    has = match.result.settings.items()
    for rival in rivals:
        if rival is cell or rival.data != cell.data or rival.epsilon != cell.epsilon:
            continue
        for source in rival.sources:
            if len(source.settings) > own and normal(source.settings).items() <= has and match.result.made_by(source):
                return True
    return False
