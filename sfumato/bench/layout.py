"""How a table looks in lines: one for each number of ours, with notes that say where it comes from."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sfumato.bench.results import NEUTRAL
from sfumato.bench.table import TITLES

Value = dict[str, Any]
MOST = 6  # columns that a page shows side by side
SHORT = {"inception-score": "IS", "fid": "FID"}
MISSING = {"open": "not run", "cannot": "-"}


def laid_out(table: Value) -> Value:
    """Columns, lines and notes of a table as `view.described` gives it."""
    usual = _usual(table)
    used = [name for name in table["protocols"] if any(name in r["values"] for r in _results(table))]
    used = used or list(table["protocols"])[:1]
    notes = Notes()
    lines = [line for cell in table["cells"] for line in _lines(cell, table, used, notes, usual)]
    for before, line in zip(reversed(lines[:-1]), reversed(lines[1:]), strict=True):
        line[0] = "" if line[0] == before[0] else line[0]
    columns = [*table["heads"], "printed", *(table["protocols"][name] for name in used), "note"]
    about = _about(table, used) + [f"Machine, unless said: {usual}."] * bool(usual)
    whole = [column for column in columns if column != columns[1]]
    return {"columns": columns, "lines": lines, "whole": whole, "notes": about + notes.written()}


def _results(table: Value) -> list[Value]:
    return [result for cell in table["cells"] for result in cell["results"]]


def _usual(table: Value) -> str:
    """The machine that made most of it."""
    made = Counter(machine(r) for r in _results(table) if r["name"] != "computed")
    return made.most_common(1)[0][0] if made else ""


def machine(result: Value) -> str:
    """Where a number was made."""
    return f"{result['machine']}, torch {result['torch']}" if result["torch"] else str(result["machine"])


def _about(table: Value, used: list[str]) -> list[str]:
    """What holds for the whole table: the protocols."""
    unused = [head for name, head in table["protocols"].items() if name not in used]
    lines = [f"Printed: {table['protocol']}."]
    if unused and table["id"].startswith("datalens"):  # whose official code has a protocol of its own
        lines.append(f"Not measured yet: {', '.join(unused)}.")
    return lines + list(table["about"])


def _lines(cell: Value, table: Value, used: list[str], notes: Notes, usual: str) -> list[list[str]]:
    """The lines of a cell: the first with what is printed, one for each of our results."""
    printed = number(cell["printed"], cell["spread"], table["digits"])
    shown = [r for r in cell["results"] if r["values"]]
    if not shown:
        word = MISSING[cell["state"]]
        return [
            [
                cell["row"],
                cell["column"],
                printed,
                word,
                *[""] * (len(used) - 1),
                notes.of(cell["why"]),
            ]
        ]
    lines = [
        [*(measured(r, name, table) for name in used), notes.of(source(r, usual)) if r["name"] != "computed" else ""]
        for r in shown
    ]
    heads = [[cell["row"], cell["column"], printed]] + [[cell["row"], "", ""]] * (len(lines) - 1)
    return [head + line for head, line in zip(heads, lines, strict=True)]


def measured(result: Value, name: str, table: Value) -> str:
    """A number of ours in the paper's unit."""
    found = result["values"].get(name)
    if found is None:
        return ""
    spread = None if found["std"] is None else found["std"] * table["scale"]
    digits = 4 if name == "seconds" else table["digits"]
    return number(found["mean"] * table["scale"], spread, digits)


def number(mean: float | None, spread: float | None, digits: int) -> str:
    """As the papers print it.

    >>> number(0.802, 0.018, 3), number(None, None, 3)
    ('0.802 ± 0.018', 'x')
    """
    if mean is None:
        return "x"
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def source(result: Value, usual: str = "") -> str:
    """Where a number comes from, in a line."""
    words = [result["name"]]
    if result["settings"]:
        words.append("with " + _settings(result["settings"]))
    if result["stand_in"]:
        words.append(f"{TITLES[result['stand_in']]} stands in")
    if result["changes"]:
        word = "with " if set(result["changes"]) <= NEUTRAL else "changed: "
        words.append(word + _settings(result["changes"]))
    words += [f"{result['seeds']} seed{'s' * (result['seeds'] != 1)}"] * ("seconds" not in result["values"])
    words += [machine(result)] * (machine(result) != usual) + ["yours"] * result["own"]
    return ", ".join(words)


def _settings(settings: dict[str, str]) -> str:
    return " ".join(f"{field}={value}" for field, value in settings.items())


class Notes:
    """Notes with numbers, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> str:
        """The number of a note, or nothing for none."""
        return str(self._numbers.setdefault(text, len(self._numbers) + 1)) if text else ""

    def written(self) -> list[str]:
        """All of them, in order."""
        return [f"{number}  {text}" for text, number in self._numbers.items()]


def pivot(table: Value) -> tuple[list[str], list[list[str]]]:
    """A table in the paper's shape: printed value, then ours; rows and columns change places where columns are many."""
    rows = list(dict.fromkeys(cell["row"] for cell in table["cells"]))
    columns = list(dict.fromkeys(_column(cell) for cell in table["cells"]))
    texts = {(cell["row"], _column(cell)): both(cell, table) for cell in table["cells"]}
    if len(columns) > MOST and len(columns) > len(rows):
        texts = {(column, row): text for (row, column), text in texts.items()}
        rows, columns = columns, rows
    lines = [[row, *(texts.get((row, column), "") for column in columns)] for row in rows]
    return ["", *columns], lines


def _column(cell: Value) -> str:
    return str(cell["column"]) + (f", {SHORT[cell['metric']]}" if cell["metric"] in SHORT else "")


def both(cell: Value, table: Value) -> str:
    """What is printed, and our first protocol: bold where it is what the cell asks for, else slanted.

    >>> table = {"digits": 2, "scale": 1, "protocols": {"fixed": "last step"}}
    >>> both({"printed": 0.5, "spread": None, "results": [{"values": {}}]}, table)
    '0.50'
    """
    printed = number(cell["printed"], None, table["digits"])
    found = [(r, name) for r in cell["results"] for name in table["protocols"] if name in r["values"]]
    if not found:
        return printed
    result, name = next((pair for pair in found if pair[0]["exact"]), found[0])
    mean = number(result["values"][name]["mean"] * table["scale"], None, 4 if name == "seconds" else table["digits"])
    return f"{printed}; " + (f"**{mean}**" if result["exact"] else f"*{mean}*")
