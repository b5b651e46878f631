"""DPAF by our recipes: beside other methods, its ingredients one by one, and images of 128 pixels.

    python -m benchmarks.dpaf --part main --data fairface:PATH --count 28000 --out FILE.json [--pictures DIR]
    python -m benchmarks.dpaf --part ablations --data fairface:PATH --count 28000 --out FILE.json
    python -m benchmarks.dpaf --part large --data fairface:PATH --count 28000 --out FILE.json

The tables of the paper are `sfumato bench dpaf-table-2 --run --data fairface:PATH` and its like: with the printed
values, public images for table XI, the printed procedure, and membership inference for table XVII.

Rows are made and judged as in `benchmarks.utility`, whose options are these, too. `main` has DPAF and seven others at
epsilon 1 and 10; methods without a recipe for faces take that of Fashion-MNIST with a quarter of its steps.
`--only` keeps rows by name (hyphens for spaces).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.utility import Trial, carry_out, options, trial
from sfumato.bench.dpaf import PLAIN
from sfumato.recipes import RECIPES

OWN = {
    "dpaf": "dpaf-ours-{}-{}",
    "datalens": "datalens-ours-{}-{}",
    "dpgan": "dpgan-revised-{}-{}",
    "ndpdc": "ndpdc-ours-{}-{}",
    "dp-sinkhorn": "dp-sinkhorn-ours-{}-{}",
}
ABLATIONS: dict[str, dict[str, str]] = {
    "ours": {},
    "judged one by one": {"together": "no"},
    "one sum for all classes": {"classwise": "no"},
    "the latest sum alone": {"replay": "1"},
    "nothing is matched": {"matching": "0"},
    "one step a sum": {"moves": "1"},
    "conv1 by DP-SGD": {"conv1": "private"},
    "smaller maps": {"layout": ""},
    "not smoothed": {"smooth": "0"},
    "waves": {"activation": "wave"},
}
LARGE = {"epochs": "5", "layout": ""}


def compared(data: str, epsilon: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """DPAF and the others at one budget: a name, and what `trial` takes."""
    for name, pattern in OWN.items():
        here = pattern.format("faces" if name == "datalens" and data == "fairface" else data, f"{epsilon:g}")
        other = pattern.format("fashion-mnist", f"{epsilon:g}")
        fewer = {} if here in RECIPES else {"steps": str(RECIPES[other].settings["steps"] // 4)}
        yield name, {"recipe": here if here in RECIPES else other, "changes": fewer}
    for source in (PLAIN[name] for name in ("DP-MERF", "PEARL", "DP-HP")):
        yield source.method, {"method": source.method, "changes": dict(source.settings), "epsilon": epsilon}


def rows(part: str, data: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a part."""
    ours = f"dpaf-ours-{data}-10"
    if part == "main":
        yield from (row for epsilon in (1.0, 10.0) for row in compared(data, epsilon))
    elif part == "ablations":
        yield from ((name, {"recipe": ours, "changes": changes}) for name, changes in ABLATIONS.items())
    else:
        yield "dpaf", {"recipe": ours, "changes": LARGE}


def trials(given: argparse.Namespace) -> Iterator[Trial]:
    """What was asked for."""
    if given.part == "large":
        given.size = 128
    for data in given.data:
        for name, what in rows(given.part, data.split(":")[0]):
            if not given.only or name.replace(" ", "-") in given.only:
                made = trial(given, data, **what)
                drawn = made.picture and made.picture.with_stem(f"{name.replace(' ', '-')}-{made.picture.stem}")
                yield replace(made, called=made.called | {"part": given.part, "row": name}, picture=drawn)


def main() -> None:
    """Make the rows of one part."""
    ask = options()
    ask.add_argument("--part", required=True, choices=("main", "ablations", "large"))
    ask.add_argument("--only", nargs="*", default=[], help="names of rows, hyphens for spaces")
    given = ask.parse_args()
    carry_out(list(trials(given)), given, "benchmarks.dpaf")


if __name__ == "__main__":
    main()
