"""The ablations of DataLens: its tables 2 (small budgets), 4 (settings), 5 (compressions) and 7 (components).

    python -m benchmarks.ablations --table 5 --data fashion-mnist --seeds 1 --out benchmarks/results/table5.json \
        [--only NAME ...] [--set teachers=400 ...]

Each row is a recipe (`sfumato recipes`), run and judged as in `benchmarks.utility`; the paper's own accuracy, best of
its test epochs, stands beside it as `published`. `--set` makes all of them smaller, say. Table 6, the time that each
compression takes, is `python -m benchmarks.compressions`.
"""

from __future__ import annotations

import sys

from benchmarks.utility import measure, options
from sfumato.recipes import RECIPES, TABLES


def chosen(table: str, data: str, only: list[str]) -> list[str]:
    """The recipes of a table that were made for this set."""
    names = [name for name in TABLES[table] if RECIPES[name].data == data.split(":")[0]]
    kept = [name for name in names if not only or name in only]
    if not kept:
        sys.exit(f"Expected a row of table {table} on {data}, which are: {', '.join(names) or 'none'}.")
    return kept


def main() -> None:
    """Run the rows of one table and write one JSON file."""
    ask = options()
    ask.add_argument("--table", choices=sorted(TABLES), required=True)
    ask.add_argument("--only", nargs="*", default=[])
    given = ask.parse_args()
    given.recipe = [name for data in given.data for name in chosen(given.table, data, given.only)]
    if len(given.data) > 1:
        sys.exit("Expected one set at a time.")
    measure(given, "benchmarks.ablations", table=given.table)


if __name__ == "__main__":
    main()
