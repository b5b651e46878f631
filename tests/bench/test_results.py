"""Files of results, and which cell each row belongs to."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sfumato.bench import datalens
from sfumato.bench.results import SHIPPED, load, matched, normal, read
from sfumato.bench.table import Cell, Source, Table
from sfumato.errors import InputError


def written(folder: Path, rows: list[dict], **whole) -> Path:
    path = folder / "some.json"
    path.write_text(json.dumps({"machine": "here", "torch": "2", "results": rows, **whole}))
    return path


def row(**more) -> dict:
    number = {"mean": 0.5, "std": None, "values": [0.5]}
    return {"recipe": "r", "data": "mnist", "epsilon": 1.0, "fixed": number, **more}


def asks(**settings: str) -> Cell:
    return Cell(row="", column="", printed=None, data="mnist", epsilon=1.0, sources=(Source("r", settings=settings),))


def test_shipped_files_are_read_and_each_tells_its_machine():
    results = read()
    assert len(results) > 150 and all(r.machine != "unknown" and r.command for r in results)


def test_every_shipped_file_belongs_to_a_table_or_to_the_documentation():
    """A row that fills no cell is still measured: on Fashion-MNIST by methods of which no table speaks there."""
    cells = [c for table in (*datalens.TABLES,) if isinstance(table, Table) for c in table.cells]
    found = {m.result.command for c in cells for m in matched(c, read(), cells)}
    assert len(found) >= 20


def test_a_row_fills_the_cell_of_its_recipe_set_and_budget(tmp_path):
    results = load(written(tmp_path, [row()]))
    (match,) = matched(asks(), results)
    assert match.exact and match.result.values["fixed"]["mean"] == 0.5 and match.result.own
    other = Cell(row="", column="", printed=None, data="mnist", epsilon=10.0, sources=(Source("r"),))
    assert matched(other, results) == []


def test_changed_settings_are_told_and_belong_to_the_cell_that_asks_for_them(tmp_path):
    results = load(written(tmp_path, [row()], settings={"topk": "100", "precision": "bfloat16"}))
    base, ablation = asks(), asks(topk="100.0")
    (match,) = matched(base, results)
    assert match.changes == {"topk": "100", "precision": "bfloat16"} and not match.exact
    (mine,) = matched(ablation, results, (base, ablation))
    assert mine.exact and mine.changes == {"precision": "bfloat16"}
    assert matched(base, results, (base, ablation)) == []


def test_the_user_s_result_stands_over_the_shipped_one(tmp_path):
    name = "datalens-paper-mnist-1"
    number = {"mean": 0.9, "std": None, "values": [0.9]}
    written(tmp_path, [{"recipe": name, "data": "mnist", "epsilon": 1.0, "fixed": number}])
    (cell,) = [c for c in datalens.table_1() if (c.row, c.column) == ("MNIST, 1", "DataLens")]
    (mine,) = [m for m in matched(cell, read(tmp_path)) if m.source.recipe == name]
    assert mine.result.own and mine.result.values["fixed"]["mean"] == 0.9


def test_a_stand_in_is_no_exact_match(tmp_path):
    results = load(written(tmp_path, [row(data="fairface")]))
    cell = Cell(row="", column="", printed=None, data="celeba-gender", epsilon=1.0, sources=(Source("r"),))
    (match,) = matched(cell, results)
    assert match.stand_in == "fairface" and not match.exact
    larger = Cell(row="", column="", printed=None, data="ffhq-gender", epsilon=1.0, sources=(Source("r"),))
    assert matched(larger, results) == []
    assert matched(larger, load(written(tmp_path, [row(data="fairface", settings={"size": 128})])))


def test_no_budget_is_an_infinite_one(tmp_path):
    results = load(written(tmp_path, [row(epsilon=None)]))
    cell = Cell(row="", column="", printed=None, data="mnist", epsilon=math.inf, sources=(Source("r"),))
    assert matched(cell, results)


def test_rows_of_single_seeds_are_gathered_and_rungs_of_dpaf_s_game_are_recipes(tmp_path):
    rows = [
        {"data": "fairface", "row": rung, "epsilon": 10.0, "seed": seed, "held": held, "fixed": 0.5 + 0.1 * seed}
        | ({"stamp": "not private"} if rung != "sound" else {})
        for rung, held in (("sound", 0), ("printed", 0), ("sound", 5000))
        for seed in (0, 1)
    ]
    sound, printed, trial = load(written(tmp_path, rows))
    assert sound.recipe == printed.recipe == "dpaf-paper-fairface-10" and not trial.recipe
    assert printed.as_printed and not sound.as_printed and sound.values["fixed"]["values"] == [0.5, 0.6]


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "{", '{"results": [1]}', '{"results": [{"fixed": {"mean": "x"}}]}', '{"results": [{"epsilon": "a"}]}'],
)
def test_a_broken_file_gives_one_sentence(tmp_path, text):
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(InputError, match=r"^mine.json is no file of results \(.*\); mend it or take it out of .*\.$"):
        read(tmp_path)


def test_numbers_have_one_spelling():
    assert normal({"a": 1e-9, "b": "1e-09", "c": "0.10", "d": "x"}) == {
        "a": "1e-09",
        "b": "1e-09",
        "c": "0.1",
        "d": "x",
    }


def test_no_shipped_file_names_a_local_folder():
    for path in SHIPPED.glob("*.json"):
        assert not any(part in path.read_text() for part in ("/work", "/root", "/home", "/tmp")), path.name
