"""The `--labels` option: which classes synthetic images get, and how often."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sfumato.data.source import listed, show
from sfumato.errors import InputError

PRIVATE = "private:"


@dataclass(frozen=True)
class LabelPrior:
    """Uniform, declared with public weights (in the order of the classes), or measured with a share of the budget."""

    kind: str  # "uniform", "declared" or "private"
    weights: tuple[float, ...] | None = None
    fraction: float | None = None


def prior_of(text: str) -> LabelPrior:
    """`uniform` or `private:FRACTION`, said as text in Python; weights need the classes, so they are given as such.

    >>> prior_of("private:0.1").fraction
    0.1
    """
    if text == "uniform" or text.startswith(PRIVATE):
        return parse_labels(text, ())
    raise InputError(
        f"Expected labels as 'uniform', 'private:FRACTION' or a LabelPrior with weights, found {show(text)!r}."
    )


def parse_labels(text: str, classes: tuple[str, ...]) -> LabelPrior:
    """Read `uniform`, `private:FRACTION`, or a file of weights (JSON object, or CSV with class,weight).

    >>> parse_labels("private:0.1", ("ill", "well"))
    LabelPrior(kind='private', weights=None, fraction=0.1)
    """
    if text == "uniform":
        return LabelPrior("uniform")
    if text.startswith(PRIVATE):
        return LabelPrior("private", fraction=_fraction(text.removeprefix(PRIVATE)))
    path = Path(text)
    if not text or "\0" in text or not path.is_file():
        raise InputError(f"Expected --labels as uniform, private:FRACTION or a file of weights, found {show(text)}.")
    return LabelPrior("declared", weights=_normalised(_weights(path), classes, show(path)))


def _fraction(text: str) -> float:
    try:
        fraction = float(text)
    except ValueError:
        fraction = math.nan
    if not 0 < fraction < 1:
        raise InputError(
            f"Expected --labels private:FRACTION with a share of the budget between 0 and 1, "
            f"found private:{show(text)}."
        )
    return fraction


def _weights(path: Path) -> dict[str, float]:
    """Class and weight pairs of a file; each class once."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{show(path)} cannot be read as text ({show(error)[:80]}); save it as UTF-8.") from error
    pairs = _from_json(text, path) if path.suffix.lower() == ".json" else _from_csv(text, path)
    weights: dict[str, float] = {}
    for name, value in pairs:
        if name in weights:
            raise InputError(f"{show(path)} names the class {show(name)} twice; keep one weight a class.")
        weights[name] = _number(value, name, path)
    return weights


def _from_json(text: str, path: Path) -> Iterable[tuple[str, object]]:
    def fail(error: object) -> InputError:
        return InputError(
            f"{show(path)} is not a JSON object of class and weight ({show(error)[:80]}); "
            'write it as {"class": weight, ...}.'
        )

    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise fail(error) from error
    if not isinstance(pairs, _Pairs):
        raise fail("it is something else")
    return pairs


class _Pairs(list[tuple[str, object]]):
    """The pairs of a JSON object, kept apart so that a class named twice is seen."""


def _from_csv(text: str, path: Path) -> Iterable[tuple[str, object]]:
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error as error:
        raise InputError(f"{show(path)} is not CSV ({error}); write one class,weight a line.") from error
    if rows and [cell.lower() for cell in rows[0]] == ["class", "weight"]:
        rows = rows[1:]
    for row in rows:
        if len(row) != 2:
            raise InputError(f"{show(path)} has a line of {len(row)} fields; write one class,weight a line.")
    return [(row[0], row[1]) for row in rows]


def _number(value: object, name: str, path: Path) -> float:
    try:
        weight = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0):
        raise InputError(
            f"{show(path)} gives the class {show(name)} the weight {show(value)}; give a finite number of at least 0."
        )
    return weight


def _normalised(weights: dict[str, float], classes: tuple[str, ...], file: str) -> tuple[float, ...]:
    if unknown := [name for name in weights if name not in classes]:
        raise InputError(f"{file} names the unknown class {show(unknown[0])}; the classes are {listed(classes)}.")
    if missing := [name for name in classes if name not in weights]:
        raise InputError(f"{file} has no weight for the class {show(missing[0])}; give every class one (0 is allowed).")
    largest = max(weights.values())
    if largest == 0:
        raise InputError(f"{file} gives every class the weight 0; give at least one class a weight above 0.")
    shares = [weights[name] / largest for name in classes]  # first by the largest, so that the sum cannot overflow
    return tuple(share / math.fsum(shares) for share in shares)
