"""Makes the cells of a table that are missing, one run at a time, and writes each as soon as it is there."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.bench import find
from sfumato.bench.measure import COUNT, Job, carry_out, summary
from sfumato.bench.results import NEUTRAL, Match, load, matched, normal, read
from sfumato.bench.sources import here
from sfumato.bench.table import ELSEWHERE, STAND_INS, Cell, Figure, Source, Table
from sfumato.errors import InputError
from sfumato.run.progress import Silent

FOLDER = "bench-results"


@dataclass
class Asked:
    """What `--run` was given."""

    folder: Path
    given: Mapping[str, str] = field(default_factory=dict)  # paths of sets by name
    only: Sequence[str] = ()
    seeds: int = 1
    device: str = "auto"
    count: int = COUNT
    run: bool = False
    again: bool = False  # cells that have a shipped result, too
    progress: Silent = field(default_factory=Silent)


def run_table(name: str, asked: Asked) -> int:
    """Make the missing cells of a table by its name; how many runs that took. Figures run when they are drawn."""
    table = find(name)
    if isinstance(table, Figure) and table.runs:
        return 0
    if not isinstance(table, Table):
        raise InputError(f"{name} has no cells to run; `sfumato bench` lists the tables that have.")
    return make_missing(table, asked)


def make_missing(table: Table, asked: Asked, work: Callable[[Job], dict[str, float]] = carry_out) -> int:
    """Make every cell that is asked for and missing; how many runs that took.

    A run that is stopped loses the seed at hand and nothing else: what is written is not made again.
    """
    file = Rows(asked.folder / f"{table.id}.json")
    every = {json.dumps([key(job), job.seed]): job for job in wanted(table, asked)}  # cells may share a run
    jobs = [job for job in every.values() if job.seed not in file.seeds(job)]
    asked.progress.start(table.id, len(jobs))
    start = time.monotonic()
    for done, job in enumerate(jobs):
        left = (time.monotonic() - start) / done * (len(jobs) - done) if done else None
        asked.progress.advance(done, _note(job, left))
        file.add(job, _tried(job, work))
    asked.progress.advance(len(jobs))
    return len(jobs)


def _note(job: Job, left: float | None) -> str:
    remaining = "" if left is None else f", {left / 60:.0f} min left" if left > 90 else f", {left:.0f} s left"
    return f"{job.cell.row} {job.source.name}, seed {job.seed}{remaining}"


def _tried(job: Job, work: Callable[[Job], dict[str, float]]) -> dict[str, float] | str:
    """The numbers of a run, or the sentence that refuses it: what cannot be planned for a set is a result, too."""
    try:
        return work(job)
    except InputError as error:
        return str(error)


def wanted(table: Table, asked: Asked) -> Iterator[Job]:
    """The runs of all cells that are asked for, by cell and seed; what has no data here is left out."""
    cells = [cell for cell in table.cells if cell.asked(list(asked.only))]
    if not cells:
        raise InputError(f"No cell of {table.id} has '{' '.join(asked.only)}' in its row, column or recipe.")
    shipped = [] if asked.again else [r for r in read() if not r.refused]
    for cell in cells:
        where = place(cell, asked.given)
        if where is None or cell.why or cell.value is not None:
            continue
        if any(_settled(match, where[2]) for match in matched(cell, shipped, table.cells)):
            continue
        for source in _runnable(cell)[:1]:
            yield from _jobs(cell, source, where, asked)


def _settled(match: Match, stand_in: bool) -> bool:
    """Whether a shipped result is what a run would make."""
    return match.exact or (stand_in and not match.source.ours and not set(match.changes) - NEUTRAL)


def _runnable(cell: Cell) -> list[Source]:
    return [s for s in cell.faithful if not s.recipe or here(s.recipe)]


def _jobs(cell: Cell, source: Source, where: tuple[str, int | None, bool], asked: Asked) -> Iterator[Job]:
    data, size, stand_in = where
    public = asked.given.get(source.public, source.public)
    for seed in range(asked.seeds):
        yield Job(
            cell,
            source,
            data,
            seed,
            asked.count,
            asked.device,
            size=size,
            public=public,
            stand_in=stand_in,
        )


def place(cell: Cell, given: Mapping[str, str]) -> tuple[str, int | None, bool] | None:
    """The set of a cell with its path, its size where that is changed, and whether it stands in; None where none is."""
    if not cell.data:
        return "", None, False
    if cell.data in given or cell.data not in ELSEWHERE:
        return given.get(cell.data, cell.data), None, False
    name, size = STAND_INS.get(cell.data, ("", None))
    return (given[name], size, True) if name in given else None


class Rows:
    """A file of results of one table, in the format of all of them; a row for each source, set and budget."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            load(path)  # which says in one sentence what is wrong with it
        self.rows: list[dict[str, Any]] = json.loads(path.read_text())["results"] if path.exists() else []

    def seeds(self, job: Job) -> list[int]:
        """The seeds that a job's row has; one that was refused is refused by every seed."""
        row = self._row(job)
        return [] if row is None else [job.seed] if "refused" in row else list(row["seeds"])

    def add(self, job: Job, found: dict[str, float] | str) -> None:
        """Another seed of a row, written before anything else happens."""
        row = self._row(job)
        if row is None:
            row = key(job)
            self.rows.append(row)
        if isinstance(found, str):
            row["refused"] = found
        else:
            row["runs"] = [*row.get("runs", []), found]
            row["seeds"] = [*row.get("seeds", []), job.seed]
            row |= summary(row["runs"])
        row |= machine(job.device)
        self._write()

    def _row(self, job: Job) -> dict[str, Any] | None:
        wanted = key(job)
        return next((row for row in self.rows if wanted.items() <= row.items()), None)

    def _write(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        command = f"sfumato bench {self.path.stem} --run"
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"command": command, "results": self.rows}, indent=1) + "\n")
        os.replace(part, self.path)


def key(job: Job) -> dict[str, Any]:
    """What tells a row from others."""
    settings = normal(job.settings) | ({"size": str(job.size)} if job.size else {})
    if job.count != COUNT and job.cell.metric in ("accuracy", "fid", "inception-score"):
        settings["count"] = str(job.count)
    named = {"recipe": job.source.recipe} if job.source.recipe else {"method": job.source.method}
    printed = {"as_printed": True} if job.source.as_printed else {}
    return {**named, **printed, "data": job.data.split(":")[0], "epsilon": job.cell.epsilon, "settings": settings}


def machine(device: str) -> dict[str, str]:
    """Where and when a row was made."""
    import torch

    from sfumato.run.run import pick_device

    cuda = pick_device(device).startswith("cuda")
    name = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    return {"machine": name, "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}


def sets(texts: Sequence[str]) -> dict[str, str]:
    """`--data NAME:PATH` options by name.

    >>> sets(["mnist:/data/mnist"])
    {'mnist': 'mnist:/data/mnist'}
    """
    from sfumato.data.named import SETS

    for text in texts:
        if text.partition(":")[0] not in SETS:
            raise InputError(f"Expected --data NAME:PATH with a name of {', '.join(SETS)}, found '{text}'.")
    return {text.partition(":")[0]: text for text in texts}
