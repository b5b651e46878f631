"""The command."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.mutants.catalogue import MUTANTS
from benchmarks.mutants.mutant import KINDS, Case, Edit, Mutant
from benchmarks.mutants.shadow import Several, Shadow
from benchmarks.mutants.table import Row, counted, lines, written

LIMITS = {0: 180.0, 1: 400.0, 2: 900.0}  # seconds of one audit
# Errors of a mutant that was written badly, and not of one that the auditors refused.
SLIPS = re.compile(
    r"\b(NameError|ImportError|ModuleNotFoundError|UnboundLocalError)\b"
    r"|must match the (size|shape)|shapes cannot be multiplied"
)
# What a facade says to one who reaches around it; of any other mutant they are slips too.
REFUSALS = re.compile(r"\b(AttributeError|TypeError|FrozenInstanceError)\b")


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant and look; the number of mutants that were not caught decides the exit status."""
    options = _options(arguments)
    chosen = choose(options.only)
    if options.list:
        return _list(chosen)
    if options.jobs < 1:
        raise SystemExit(f"Expected --jobs of at least 1, found {options.jobs}.")
    command = ["python", "-m", "benchmarks.mutants", *(sys.argv[1:] if arguments is None else arguments)]
    with Several(options.jobs) as shadows:
        if options.twins:
            return _twins(shadows, chosen, options, command)
        rows = _each(shadows, chosen, options.level)
    print("\n".join(lines(rows)))
    if options.json:
        written(options.json, command, {"level": options.level, **counted(rows), "mutants": rows})
    return int(any(row["verdict"] != "caught" for row in rows))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID|KIND")
    parser.add_argument("--level", type=int, choices=(0, 1, 2), default=2)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="audits that run side by side")
    parser.add_argument("--json", metavar="FILE", help="all that was found, with this command")
    parser.add_argument("--list", action="store_true", help="show the mutants, and which no longer apply")
    parser.add_argument("--twins", type=int, default=0, metavar="SEEDS", help="audit what is right, over many seeds")
    return parser.parse_args(arguments)


def choose(only: Sequence[str]) -> list[Mutant]:
    """Mutants by id or kind; all of them for none."""
    unknown = set(only) - {m.id for m in MUTANTS} - set(KINDS)
    if unknown:
        raise SystemExit(f"Expected --only as an id or a kind of --list, found {', '.join(sorted(unknown))}.")
    return [m for m in MUTANTS if not only or m.id in only or m.kind in only]


def _list(chosen: Sequence[Mutant]) -> int:
    stale = 0
    for mutant in chosen:
        problems = mutant.problems()
        stale += bool(problems)
        print(f"{mutant.id:28} {mutant.kind:10} {'; '.join(problems) and 'STALE: ' + '; '.join(problems)}")
        print(f"    {mutant.what} [{', '.join(map(str, mutant.cases))}]")
    print(f"{len(chosen)} mutants, {stale} of them no longer apply.")
    return int(stale > 0)


def _each(shadows: Several, chosen: Sequence[Mutant], level: int) -> list[Row]:
    ask = [lambda shadow, mutant=mutant: look_at(shadow, mutant, level) for mutant in chosen]
    return shadows.map(ask, lambda row: f"{row['id']}: {_said(row)}")


def _said(row: Row) -> str:
    unreached = " (never reached)" if row["reached"] is False else ""
    return f"{row['verdict']}{unreached} {row['check']} {row['detail'][:150]}".rstrip()


def look_at(shadow: Shadow, mutant: Mutant, level: int) -> Row:
    """Level 0 first; the higher ones where it saw nothing."""
    row: Row = {
        "id": mutant.id,
        "kind": mutant.kind,
        "what": mutant.what,
        "verdict": "missed",
        "level": None,  # the lowest that saw it
        "levels": [],  # all that did, of those that were asked
        "check": "",
        "detail": "",
        "case": "",
        "reached": None,
        "seconds": 0.0,
    }
    if problems := mutant.problems():
        return row | {"verdict": "stale", "detail": "; ".join(problems)}
    for at in sorted({0, level}):
        for case in mutant.cases:
            found = shadow.audit(mutant.edits, case, at, [0], LIMITS[at])
            row |= _judged(mutant, case, found, row)
            if row["verdict"] in ("caught", "broken"):
                return row
    return row


def _judged(mutant: Mutant, case: Case, found: dict[str, Any], before: Row) -> Row:
    if "error" in found:
        return {"verdict": "error", "detail": found["error"], "case": str(case)}
    (report,) = found["reports"]
    told = {
        "seconds": before["seconds"] + found["seconds"],
        "case": str(case),
        "reached": found["reached"] if before["reached"] is not True else True,
    }
    failed = [r for r in report["rows"] if r["verdict"] == "fail"]
    if not failed:
        return told | {"detail": report["note"] or before["detail"]}
    seen = [r for r in failed if not _slipped(mutant, r["detail"])]
    if not seen:
        return told | {"verdict": "broken", "check": failed[0]["check"], "detail": failed[0]["detail"]}
    levels = sorted({r["level"] for r in seen})
    first = next(r for r in seen if r["level"] == levels[0])
    return told | {
        "verdict": "caught",
        "check": first["check"],
        "level": levels[0],
        "levels": levels,
        "detail": first["detail"],
        "checks": sorted({r["check"].split(": ")[-1] for r in seen}),
    }


def _slipped(mutant: Mutant, detail: str) -> bool:
    """Whether a failure is that of a mutant which does not run, so that it says nothing of the auditors."""
    return bool(SLIPS.search(detail) or (REFUSALS.search(detail) and not mutant.refusal))


def _twins(shadows: Several, chosen: Sequence[Mutant], options: argparse.Namespace, command: Sequence[str]) -> int:
    """The unchanged package on every case, and every harmless change, over many seeds: nothing may be refused."""
    none: tuple[Edit, ...] = ()
    asked = list({str(c): (str(c), none, c) for m in chosen for c in m.cases}.values())
    asked += [(f"twin of {m.id}: {c}", m.twin, c) for m in chosen if m.twin and not m.problems() for c in m.cases]
    ask = [lambda shadow, twin=twin: _twin(shadow, *twin, options.level, options.twins) for twin in asked]
    rows = shadows.map(ask, lambda row: f"{row['name']}: {_passed(row)}")
    wrong = [r for r in rows if r["refused"] or r["error"]]
    print(f"{len(asked) - len(wrong)} of {len(asked)} pass over {options.twins} seeds.")
    if options.json:
        written(options.json, command, {"level": options.level, "seeds": options.twins, "twins": rows})
    return int(bool(wrong))


def _twin(shadow: Shadow, name: str, edits: tuple[Edit, ...], case: Case, level: int, seeds: int) -> Row:
    found = shadow.audit(edits, case, level, range(seeds), LIMITS[level] * max(1, seeds / 4))
    refused = [
        (r["seed"], x["check"], x["detail"])
        for r in found.get("reports", [])
        for x in r["rows"]
        if x["verdict"] == "fail"
    ]
    return {"name": name, "refused": refused, "error": found.get("error"), "reached": found.get("reached")}


def _passed(row: Row) -> str:
    return row["error"] or (f"REFUSED {row['refused'][0]}" if row["refused"] else "passes")


if __name__ == "__main__":
    sys.exit(main())
