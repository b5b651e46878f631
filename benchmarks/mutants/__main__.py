"""The command."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.catalogue import MUTANTS
from benchmarks.mutants.mutant import KINDS, Case, Edit, Mutant
from benchmarks.mutants.shadow import Shadow

LIMITS = {0: 180.0, 1: 400.0, 2: 900.0}  # seconds of one audit
# Errors of a mutant that was written badly, and not of one that the auditors refused.
SLIPS = re.compile(
    r"\b(NameError|AttributeError|TypeError|ImportError|ModuleNotFoundError|UnboundLocalError|FrozenInstanceError)\b"
    r"|must match the (size|shape)|shapes cannot be multiplied"
)
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant and look; the number of mutants that were not caught decides the exit status."""
    options = _options(arguments)
    chosen = choose(options.only)
    if options.list:
        return _list(chosen)
    shadow = Shadow()
    try:
        if options.twins:
            return _twins(shadow, chosen, options.level, options.twins, options.json)
        rows = _each(shadow, chosen, options.level)
    finally:
        shadow.close()
    _show(rows)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["verdict"] != "caught" for row in rows))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID|KIND")
    parser.add_argument("--level", type=int, choices=(0, 1, 2), default=2)
    parser.add_argument("--json", metavar="FILE")
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


def _each(shadow: Shadow, chosen: Sequence[Mutant], level: int) -> list[Row]:
    rows, began = [], time.monotonic()
    for number, mutant in enumerate(chosen, 1):
        row = look_at(shadow, mutant, level)
        rows.append(row)
        left = (time.monotonic() - began) / number * (len(chosen) - number)
        print(f"[{number}/{len(chosen)}, {left / 60:.1f} min left] {mutant.id}: {_said(row)}", file=sys.stderr)
    return rows


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
        "level": None,
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
    slips = [r for r in failed if SLIPS.search(r["detail"])]
    if len(slips) == len(failed) and not mutant.refusal:
        return told | {"verdict": "broken", "check": failed[0]["check"], "detail": failed[0]["detail"]}
    first = next(r for r in failed if r not in slips) if not mutant.refusal else failed[0]
    checks = sorted({r["check"].split(": ")[-1] for r in failed})
    return told | {
        "verdict": "caught",
        "check": first["check"],
        "level": first["level"],
        "detail": first["detail"],
        "checks": checks,
    }


def _show(rows: Sequence[Row]) -> None:
    print(f"\n{'kind':12}{'caught':>8}{'missed':>8}{'other':>8}")
    for kind in [k for k in KINDS if any(r["kind"] == k for r in rows)]:
        of = [r["verdict"] for r in rows if r["kind"] == kind]
        caught, missed = of.count("caught"), of.count("missed")
        print(f"{kind:12}{caught:8}{missed:8}{len(of) - caught - missed:8}")
    for verdict in ("missed", "broken", "error", "stale"):
        for row in (r for r in rows if r["verdict"] == verdict):
            reached = " (never reached)" if row["reached"] is False else ""
            print(f"{verdict}{reached}: {row['id']} ({row['kind']}): {row['what']} {row['detail'][:160]}".rstrip())
    print("\ncaught by:")
    for row in (r for r in rows if r["verdict"] == "caught"):
        print(f"  {row['id']:28} level {row['level']}, {', '.join(row['checks'])}")
    caught = sum(r["verdict"] == "caught" for r in rows)
    print(f"{caught} of {len(rows)} caught ({caught / max(1, len(rows)):.0%}).")


def _twins(shadow: Shadow, chosen: Sequence[Mutant], level: int, seeds: int, place: str | None) -> int:
    """The unchanged package on every case, and every harmless change, over many seeds: nothing may be refused."""
    none: tuple[Edit, ...] = ()
    asked = list({str(c): (str(c), none, c) for m in chosen for c in m.cases}.values())
    asked += [(f"twin of {m.id}: {c}", m.twin, c) for m in chosen if m.twin and not m.problems() for c in m.cases]
    rows, began = [], time.monotonic()
    for number, (name, edits, case) in enumerate(asked, 1):
        found = shadow.audit(edits, case, level, range(seeds), LIMITS[level] * max(1, seeds / 4))
        refused = [
            (r["seed"], x["check"], x["detail"])
            for r in found.get("reports", [])
            for x in r["rows"]
            if x["verdict"] == "fail"
        ]
        rows.append({"name": name, "refused": refused, "error": found.get("error"), "reached": found.get("reached")})
        left = (time.monotonic() - began) / number * (len(asked) - number)
        said = found.get("error") or (f"REFUSED {refused[0]}" if refused else "passes")
        print(f"[{number}/{len(asked)}, {left / 60:.1f} min left] {name}: {said}", file=sys.stderr)
    wrong = [r for r in rows if r["refused"] or r["error"]]
    print(f"{len(asked) - len(wrong)} of {len(asked)} pass over {seeds} seeds.")
    if place:
        Path(place).write_text(json.dumps(rows, indent=1) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
