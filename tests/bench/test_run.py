"""Making missing cells: resumable, idempotent, and nothing without its data."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from sfumato.bench.results import matched, read
from sfumato.bench.run import Asked, make_missing, run_table, sets
from sfumato.bench.table import Cell, Source, Table
from sfumato.errors import InputError, SfumatoError
from sfumato.run.progress import Recorder

SOURCE = Source("datalens-code-fashion-mnist-10", settings={"steps": "2"})


def cell(data: str, source: Source = SOURCE, **more) -> Cell:
    return Cell(row=data, column="DataLens", printed=0.5, data=data, epsilon=10.0, sources=(source,), **more)


CELLS = (
    cell("fashion-mnist"),
    cell("celeba-gender"),
    cell("celeba-hair"),
    cell("fashion-mnist", Source("no-such-recipe")),
    cell("fashion-mnist", why="of real images"),
    cell("fashion-mnist"),  # the base of an ablation stands in several cells, and is made once
)
TABLE = Table("tiny-table", "a tiny table", "printed", lambda: CELLS)


class Work:
    """Counts runs in the place of making releases."""

    def __init__(self, stop_after: int = 100, refuse: bool = False) -> None:
        self.jobs: list = []
        self.stop_after = stop_after
        self.refuse = refuse

    def __call__(self, job) -> dict[str, float]:
        if len(self.jobs) == self.stop_after:
            raise KeyboardInterrupt
        self.jobs.append(job)
        if self.refuse:
            raise InputError("This cannot be planned.")
        return {"fixed": 0.5 + 0.1 * job.seed, "paper": 0.7}


def test_what_is_there_is_not_made_again(tmp_path):
    work = Work()
    asked = Asked(tmp_path, seeds=2)
    assert make_missing(TABLE, asked, work) == 2
    before = (tmp_path / "tiny-table.json").read_bytes()
    assert make_missing(TABLE, asked, work) == 0 and (tmp_path / "tiny-table.json").read_bytes() == before
    assert make_missing(TABLE, Asked(tmp_path, seeds=3), work) == 1
    assert [job.seed for job in work.jobs] == [0, 1, 2]
    (match,) = matched(CELLS[0], read(tmp_path))
    assert match.exact and match.result.values["fixed"]["values"] == pytest.approx([0.5, 0.6, 0.7])
    assert match.result.machine and match.result.date


def test_a_run_that_is_stopped_keeps_what_it_had(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make_missing(TABLE, Asked(tmp_path, seeds=3), Work(stop_after=2))
    (row,) = json.loads((tmp_path / "tiny-table.json").read_text())["results"]
    assert row["seeds"] == [0, 1]
    work = Work()
    assert make_missing(TABLE, Asked(tmp_path, seeds=3), work) == 1 and work.jobs[0].seed == 2


def test_sets_that_few_have_are_run_where_they_are_given_or_stood_in_for(tmp_path):
    work = Work()
    make_missing(TABLE, Asked(tmp_path, sets(["fairface:/faces.npz"])), work)
    assert [(j.data, j.stand_in) for j in work.jobs] == [("fashion-mnist", False), ("fairface:/faces.npz", True)]
    assert "/faces.npz" not in (tmp_path / "tiny-table.json").read_text()
    work = Work()
    declared = Asked(tmp_path, sets(["celeba-gender:/c", "celeba-hair:/h"]), provenance="CelebA, for research")
    make_missing(TABLE, declared, work)
    assert [j.data for j in work.jobs] == ["celeba-gender:/c", "celeba-hair:/h"]
    assert "CelebA, for research" in (tmp_path / "tiny-table.json").read_text()


def test_a_set_that_is_not_public_by_its_name_must_be_declared(tmp_path):
    work = Work()
    with pytest.raises(InputError, match="celeba-hair is not public by its name.*--provenance TEXT"):
        make_missing(TABLE, Asked(tmp_path, sets(["celeba-hair:/h"])), work)
    assert not work.jobs


def test_the_printed_procedure_is_run_beside_the_sound_one(tmp_path):
    from sfumato.bench import find

    for data, name in (("fairface", "dpaf-paper-fairface-10"), ("celeba-gender", "dpaf-paper-faces-10")):
        asked = Asked(tmp_path, sets([f"{data}:/f"]), ["celeba-gender-10", "dpaf-paper"], provenance="public faces")
        work = Work()
        make_missing(find("dpaf-table-2"), asked, work)
        assert [job.source.name for job in work.jobs] == [name, f"{name} as printed"]


def test_a_refusal_is_a_result(tmp_path):
    work = Work(refuse=True)
    assert make_missing(TABLE, Asked(tmp_path, seeds=2), work) == 2
    assert make_missing(TABLE, Asked(tmp_path, seeds=2), work) == 0
    (match,) = matched(CELLS[0], read(tmp_path))
    assert match.result.refused == "This cannot be planned." and not match.result.values


def test_only_keeps_cells_and_refuses_words_that_no_cell_has(tmp_path):
    work = Work()
    assert make_missing(TABLE, Asked(tmp_path, only=["hair"]), work) == 0
    with pytest.raises(InputError, match="No cell of tiny-table has 'nothing'"):
        make_missing(TABLE, Asked(tmp_path, only=["nothing"]), work)


def test_progress_tells_the_cell_and_the_remaining_time(tmp_path):
    recorder = Recorder()
    make_missing(TABLE, Asked(tmp_path, seeds=2, progress=recorder), Work())
    assert recorder.lines[0] == ("start", "tiny-table", 2)
    assert recorder.lines[1][2].endswith("seed 0") and recorder.lines[2][2].endswith("0 s left")
    assert recorder.lines[-1][1] == 2


def numbers(job) -> dict[str, float]:
    return {"fixed": 0.1 * job.seed}


def test_several_runs_at_a_time_are_written_alike(tmp_path):
    assert make_missing(TABLE, Asked(tmp_path, seeds=3, jobs=2), numbers) == 3
    (match,) = matched(CELLS[0], read(tmp_path))
    assert sorted(match.result.values["fixed"]["values"]) == pytest.approx([0.0, 0.1, 0.2])


def test_changes_to_all_recipes_are_told_by_every_number(tmp_path):
    make_missing(TABLE, Asked(tmp_path, settings={"teachers": "40"}), Work())
    (match,) = matched(CELLS[0], read(tmp_path))
    assert match.changes == {"teachers": "40"} and not match.exact


def test_a_shipped_result_is_enough_unless_asked_for_again(tmp_path):
    words = ["mnist-0.1", "gm-dp", "topagg-mnist-gm-dp-0.1"]
    from sfumato.bench import find

    table = find("datalens-table-8")
    assert make_missing(table, Asked(tmp_path, only=words), Work()) == 0
    assert make_missing(table, Asked(tmp_path, only=words, again=True), Work()) == 1


def test_a_broken_file_of_the_user_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "tiny-table.json").write_text("{")
    work = Work()
    with pytest.raises(InputError, match="tiny-table.json is no file of results"):
        make_missing(TABLE, Asked(tmp_path), work)
    assert not work.jobs


def test_names_that_are_no_table_and_no_set_are_refused(tmp_path):
    with pytest.raises(InputError, match="has no cells to run"):
        run_table("survey-table-1", Asked(tmp_path))
    with pytest.raises(InputError, match="Expected --data NAME:PATH"):
        sets(["/some/folder"])


def test_a_run_of_another_table_is_not_made_again(tmp_path):
    make_missing(TABLE, Asked(tmp_path, seeds=2), Work())
    other = Table("other-table", "the same cell elsewhere", "printed", lambda: CELLS[:1])
    work = Work()
    assert make_missing(other, Asked(tmp_path, seeds=3), work) == 1 and work.jobs[0].seed == 2
    assert make_missing(other, Asked(tmp_path, settings={"topk": "9"}), Work()) == 1


def fatal(job) -> dict[str, float]:
    """A worker that is killed once on the way."""
    mark = Path(job.provenance)
    if job.seed == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return numbers(job)


def broken(job) -> dict[str, float]:
    raise RuntimeError("no luck")


def test_a_killed_worker_costs_no_cell_and_a_broken_run_ends_with_a_sentence(tmp_path):
    asked = Asked(tmp_path / "a", seeds=3, jobs=2, provenance=str(tmp_path / "mark"))
    assert make_missing(TABLE, asked, fatal) == 3 and (tmp_path / "mark").exists()
    (match,) = matched(CELLS[0], read(tmp_path / "a"))
    assert sorted(match.result.values["fixed"]["values"]) == pytest.approx([0.0, 0.1, 0.2])
    with pytest.raises(SfumatoError, match="seed 0 failed: RuntimeError: no luck"):
        make_missing(TABLE, Asked(tmp_path / "b", jobs=2), broken)
