"""Several releases side by side: what each promises, how useful each was found, and how each looks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.evaluate.place import FILE as EVALUATION
from sfumato.evaluate.place import check_place
from sfumato.evaluate.report import render, write_page
from sfumato.evaluate.results import FORMAT as EVALUATED

FORMAT = "sfumato-comparison/1"
JSON = "comparison.json"
PAGE = "comparison.html"
SAME = ("relation", "unit", "delta", "data")  # what must be equal for two rows to be held against each other
PREFERRED = "cnn"


def compare(folders: Sequence[str | Path], out: str | Path = "comparison") -> dict[str, Any]:
    """Compare releases, and write comparison.json and comparison.html into `out`.

    Accuracy and FID are those of RELEASE-evaluation/evaluation.json, where there is one; they are as private as the
    data. A row whose relation, unit, delta or data differ from most of the others' is marked as not comparable.
    """
    places = _check(folders, out)
    rows = [_row(number, folder) for number, folder in enumerate(places, 1)]
    evaluations = [row.pop("evaluation") for row in rows]
    private = any(e["touches_private"] for e in evaluations if e)
    classifier, space = _common(evaluations)
    for row, evaluation in zip(rows, evaluations, strict=True):
        row |= _measured(evaluation, classifier, space)
    basis = mark(rows)
    comparison = {
        "format": FORMAT,
        "touches_private": private,
        "basis": basis,
        "classifier": classifier,
        "space": space,
        "rows": rows,
    }
    place = Path(out).absolute()
    write_page(place / JSON, json.dumps(comparison, indent=1, allow_nan=False) + "\n", private)
    write_page(place / PAGE, _page(comparison, places), private)
    return comparison | {"out": str(place)}


def _check(folders: Sequence[str | Path], out: str | Path) -> list[Path]:
    places = [Path(folder) for folder in folders]
    if len(places) < 2:
        raise InputError("Expected at least two releases to compare; name their folders.")
    known: set[Path] = set()
    for place in places:
        if place.resolve() in known:
            raise InputError(f"{place} is given twice; name each release once.")
        known.add(place.resolve())
        check_place(place, out)
    here = Path(out)
    if here.is_dir() and any(here.iterdir()) and not (here / JSON).is_file():
        raise InputError(f"{here} is not empty, and no earlier comparison; choose another --out.")
    return places


def _row(number: int, folder: Path) -> dict[str, Any]:
    """What the statement of a release says, and its evaluation."""
    from sfumato.release.files.reading import read_statement

    statement = read_statement(folder)
    given = statement["guarantee"]
    notes: list[str] = []
    evaluation = _evaluation(folder, statement, notes)
    try:
        return {
            "number": number,
            "name": folder.resolve().name,
            "method": statement["reproducibility"]["method"],
            **{key: given[key] for key in ("epsilon", "delta", "relation", "unit")},
            "data": statement["declared_public"]["data_name"],
            "notes": notes,
            "evaluation": evaluation,
        }
    except KeyError as error:
        raise InputError(f"{folder}/privacy.json lacks {error}; fetch the release again.") from error


def _evaluation(folder: Path, statement: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
    """The evaluation beside a release, if it is of this very release."""
    whole = folder.resolve()
    path = whole.with_name(f"{whole.name}-evaluation") / EVALUATION
    if not path.is_file():
        notes.append("not evaluated")
        return None
    try:
        evaluation: dict[str, Any] = json.loads(path.read_bytes())
        if evaluation["format"] != EVALUATED:
            raise ValueError("format")
        about = evaluation["sections"]["release"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no readable evaluation; run sfumato evaluate again.") from error
    if about["guarantee"] != json.loads(json.dumps(statement["guarantee"])):
        notes.append("its evaluation is of another release: evaluate again")
        return None
    return evaluation


def _common(evaluations: Sequence[Mapping[str, Any] | None]) -> tuple[str | None, str | None]:
    """The classifier and the FID that all evaluations have."""
    there = [e["sections"] for e in evaluations if e]
    kinds = [list(s["utility"]["synthetic"]["classifiers"]) for s in there if "utility" in s]
    spaces = [
        [k for k in (s["fidelity"].get("values") or {}) if k.startswith("fid/")] for s in there if "fidelity" in s
    ]
    return _shared(kinds, PREFERRED), _shared(spaces, "fid/efficientnet-lite0")


def _shared(lists: Sequence[list[str]], preferred: str) -> str | None:
    both = [name for name in lists[0] if all(name in other for other in lists)] if lists else []
    return preferred if preferred in both else next(iter(both), None)


def _measured(evaluation: Mapping[str, Any] | None, classifier: str | None, space: str | None) -> dict[str, Any]:
    """Accuracy after the last step and FID; both are null where they were not measured."""
    sections = (evaluation or {}).get("sections", {})
    utility = sections.get("utility")
    values = (sections.get("fidelity") or {}).get("values") or {}
    if utility is None or classifier is None:
        return {"accuracy": None, "real": None, "test": None, "fid": values.get(space or "")}
    ours, real = (utility[key]["classifiers"][classifier]["fixed"] for key in ("synthetic", "real"))
    data = sections["data"]
    return {
        "accuracy": ours,
        "real": real["mean"],
        "test": f"{data['test']} ({data['test_records']})",
        "fid": values.get(space or ""),
    }


def mark(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Say of each row whether it may be held against the others, and in what it differs from most of them.

    >>> rows = [{"relation": "add-remove", "unit": "record", "delta": d, "data": "x", "test": None}
    ...         for d in (1e-5, 1e-5, 1e-6)]
    >>> _ = mark(rows)
    >>> [row["mark"] for row in rows]
    ['', '', 'not comparable: other delta']
    """
    keys = [tuple(row[name] for name in SAME) for row in rows]
    usual = Counter(keys).most_common(1)[0][0]
    test = next((row["test"] for row, key in zip(rows, keys, strict=True) if key == usual and row["test"]), None)
    for row, key in zip(rows, keys, strict=True):
        other = [name for name, a, b in zip(SAME, key, usual, strict=True) if a != b]
        if row["test"] and test and row["test"] != test and "data" not in other:
            other.append("test set")
        row |= {"comparable": not other, "mark": f"not comparable: other {', other '.join(other)}" if other else ""}
    return dict(zip(SAME, usual, strict=True)) | {"test": test}


def _page(comparison: Mapping[str, Any], places: Sequence[Path]) -> str:
    from sfumato.evaluate.drawings import trade_svg
    from sfumato.evaluate.grids import columns
    from sfumato.release import read_images

    grids = []
    for row, place in zip(comparison["rows"], places, strict=True):
        images = read_images(place)
        grids.append(
            {
                "row": row,
                "rows": columns(images),
                "classes": images.classes,
                "count": len(images),
                "small": max(images.pixels.shape[2:]) < 64,
            }
        )
    drawn = [row for row in comparison["rows"] if row["accuracy"]]
    real = [row["real"] for row in drawn if row["comparable"]]
    plot = trade_svg(drawn, max(real) if real else None) if drawn else None
    return render("compare.html.j2", **comparison, plot=plot, grids=grids)
