"""Makes the cells of a table that are missing, one run at a time, and writes each as soon as it is there."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.bench import find
from sfumato.bench.judge import COUNT
from sfumato.bench.measure import Job, carry_out, summary
from sfumato.bench.results import NEUTRAL, Match, Result, load, matched, normal, read, same_epsilon
from sfumato.bench.sources import here
from sfumato.bench.table import ELSEWHERE, STAND_INS, Cell, Figure, Source, Table
from sfumato.errors import InputError, SfumatoError, did_you_mean
from sfumato.flow.pool import LocalPool, time_left
from sfumato.recipes import RECIPES
from sfumato.run.progress import Silent

FOLDER = "bench-results"
Work = Callable[[Job], dict[str, float]]
Found = dict[str, float] | str  # numbers, or the sentence that refuses


@dataclass
class Asked:
    """What `--run` was given."""

    folder: Path
    given: Mapping[str, str] = field(default_factory=dict)  # paths of sets by name
    only: Sequence[str] = ()
    seeds: int = 1
    device: str = "auto"
    count: int = COUNT
    official: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)  # changes to all recipes, which each number tells
    jobs: int = 1  # runs at a time, each in a process of its own
    pictures: Path | None = None  # a folder for grids of images of each first seed
    provenance: str = ""  # of sets that are not public by their name
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


def make_missing(table: Table, asked: Asked, work: Work = carry_out) -> int:
    """Make every cell that is asked for and missing; how many runs that took.

    A run that is stopped loses the seed at hand and nothing else: what is written is not made again.
    """
    file = Rows(asked.folder / f"{table.id}.json")
    every = {json.dumps([key(job), job.seed]): job for job in wanted(table, asked)}  # cells may share a run
    others = [r for path in sorted(asked.folder.glob("*.json")) if path != file.path for r in load(path)]
    jobs = [job for job in every.values() if job.seed not in file.seeds(job) and not _elsewhere(job, others)]
    asked.progress.start(table.id, len(jobs))
    start = time.monotonic()
    for done, (job, found) in enumerate(_made(jobs, work, asked), 1):
        file.add(job, found)
        left = (time.monotonic() - start) / done * (len(jobs) - done)
        asked.progress.advance(done, f"{_named(job)}, {time_left(left)} left")
    return len(jobs)


def _elsewhere(job: Job, results: Sequence[Result]) -> bool:
    """Whether another file of the user's has this run, of another table, say."""
    wanted = key(job)
    return any(
        result.made_by(job.source)
        and (result.data, result.settings) == (wanted["data"], wanted["settings"])
        and same_epsilon(job.cell.epsilon, result.epsilon)
        and (result.refused or job.seed < result.seeds())
        for result in results
    )


def _made(jobs: Sequence[Job], work: Work, asked: Asked) -> Iterator[tuple[Job, Found]]:
    """Every job with what came of it, as they end."""
    if asked.jobs == 1:
        for done, job in enumerate(jobs):
            asked.progress.advance(done, _named(job))
            yield job, tried(job, work)
        return
    for outcome in LocalPool(asked.jobs).map(partial(_worked, work), jobs):
        if outcome.lost:
            raise SfumatoError(f"{_named(jobs[outcome.number])} failed: {outcome.lost}; what ended is kept.")
        yield jobs[outcome.number], outcome.found


def _worked(work: Work, job: Job) -> Found:
    return tried(job, work)


def _named(job: Job) -> str:
    return f"{job.cell.row} {job.source.name}, seed {job.seed}"


def tried(job: Job, work: Work) -> Found:
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
    _check_declared(asked)
    shipped = [] if asked.again else [r for r in read() if not r.refused]
    for cell in cells:
        where = place(cell, asked.given)
        if where is None or cell.why or cell.value is not None:
            continue
        if any(_settled(match, where[2]) for match in matched(cell, shipped, table.cells)):
            continue
        for source in _runnable(cell, where):
            yield from _jobs(cell, source, where, asked)


def _check_declared(asked: Asked) -> None:
    """Accuracies are shown without noise and some rows have no privacy, so somebody must declare the sets public."""
    undeclared = [name for name in asked.given if name in ELSEWHERE]
    if undeclared and not asked.provenance.strip():
        raise InputError(
            f"The set {undeclared[0]} is not public by its name, and numbers of it are shown without noise; say where "
            "public images are from with --provenance TEXT."
        )


def _settled(match: Match, stand_in: bool) -> bool:
    """Whether a shipped result is what a run would make."""
    return match.exact or (stand_in and not match.source.ours and not set(match.changes) - NEUTRAL)


def _runnable(cell: Cell, where: tuple[str, int | None, bool]) -> list[Source]:
    """The first source that is here, and the printed procedure beside it; a recipe for the set at hand comes first."""
    data, _, stand_in = where
    ready = [s for s in cell.faithful if not s.recipe or here(s.recipe)]
    if stand_in:
        ready.sort(key=lambda s: s.recipe not in RECIPES or RECIPES[s.recipe].data != data.split(":")[0])
    return ready[:1] + [s for s in ready[1:] if s.as_printed and s.recipe == ready[0].recipe]


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
            official=asked.official,
            changes=asked.settings,
            pictures=asked.pictures,
            provenance=asked.provenance,
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

    def add(self, job: Job, found: Found) -> None:
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
        row |= {"provenance": job.provenance} if job.data.split(":")[0] in ELSEWHERE else {}
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
            hint = did_you_mean(text.partition(":")[0], SETS, otherwise=f"there are {', '.join(SETS)}.")
            raise InputError(f"Expected --data NAME:PATH with the name of a set, found '{text}'; {hint}")
    return {text.partition(":")[0]: text for text in texts}
