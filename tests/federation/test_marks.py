"""Marks that survive: the last whole line."""

from __future__ import annotations

from sfumato.federation.marks import Marks

FIRST = {"asked": [0, 0], "opened": None}


def test_what_was_put_is_there_for_the_next_process(tmp_path):
    marks = Marks(tmp_path / "marks", FIRST)
    marks.put(asked=[1, 1])
    marks.put(asked=[2, 1], opened=1)
    assert Marks(tmp_path / "marks", FIRST).now == {"asked": [2, 1], "opened": 1}


def test_a_torn_line_had_no_effect(tmp_path):
    Marks(tmp_path / "marks", FIRST).put(asked=[1, 1])
    with open(tmp_path / "marks", "ab") as file:
        file.write(b'{"asked": [2,')
    assert Marks(tmp_path / "marks", FIRST).now["asked"] == [1, 1]
    assert (tmp_path / "marks").read_bytes().count(b"\n") == 1


def test_the_first_marks_are_not_changed_by_later_ones(tmp_path):
    Marks(tmp_path / "marks", FIRST).put(asked=[1, 1])
    assert FIRST == {"asked": [0, 0], "opened": None}
