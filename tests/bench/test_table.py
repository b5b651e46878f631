"""What a table is made of."""

from __future__ import annotations

from sfumato.bench.table import Cell, Source, numbered, value, where

CELL = Cell(row="Fashion-MNIST, 1", column="D2P-Fed", printed=0.1667, sources=(Source("datalens-table5-levels"),))


def test_a_cell_is_asked_for_by_row_column_or_recipe():
    assert (
        CELL.asked([]) and CELL.asked(["fashion-mnist"]) and CELL.asked(["D2P-Fed"]) and CELL.asked(["table5-levels"])
    )
    assert CELL.asked(["Fashion-MNIST, 1", "d2p"]) and not CELL.asked(["fashion-mnist", "sketch"])


def test_blocks_keep_what_is_not_printed_apart_from_numbers():
    assert numbered("a 1  0.5 x\nb  2±3") == [("a 1", ["0.5", "x"]), ("b", ["2±3"])]
    assert value("x") == (None, None) and value("2±3") == (2.0, 3.0)
    assert where("celeba-hair", 10.0) == "CelebA-Hair, 10"


def test_our_own_settings_are_told_from_the_paper_s():
    ours = [
        Source("dpgan-revised-mnist-1"),
        Source("g-pate-ours-mnist-1"),
        Source(method="dp-merf", settings={"a": "1"}),
    ]
    assert all(source.ours for source in ours)
    assert not any(source.ours for source in (Source("datalens-paper-mnist-1"), Source(method="dc-gan")))
    both = Cell(row="", column="", printed=None, sources=(ours[0], Source("dpgan-xie-mnist-10")))
    assert [s.name for s in both.faithful] == ["dpgan-xie-mnist-10"]
