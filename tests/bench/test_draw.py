"""The drawn figures."""

from __future__ import annotations

import math

import pytest

from sfumato.bench import ENTRIES, draw
from sfumato.bench.results import read
from sfumato.bench.run import Asked
from sfumato.bench.table import Figure
from sfumato.errors import InputError
from tests.bench.test_measure import data  # noqa: F401 (a fixture)

DRAWN = [e for e in ENTRIES.values() if isinstance(e, Figure) and e.drawing and not e.runs]


@pytest.mark.parametrize("entry", DRAWN, ids=lambda e: e.id)
def test_a_figure_is_drawn_the_same_each_time(entry, tmp_path):
    for name in ("a.svg", "b.svg"):
        draw.draw(entry, read(), Asked(tmp_path), tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text() and text.count("<path") > 5


def test_theorem_3_ends_where_the_paper_s_budget_does():
    steps, printed, exact = draw.independent(200, 5000.0, 15)
    assert steps[-1] == 1301 // 15 and 0.99 < printed[-1] <= 1.0
    assert all(e < p for e, p in zip(exact, printed, strict=True))


def test_the_likeliest_answer_of_many_dimensions_is_never_likely():
    few, many = (draw.failure(1, 5000.0, 0.7, 4000, d) for d in (2, 784))
    assert many < -200 < few < 0
    assert draw.failure(0, 100.0, 0.7, 4000, 784) == pytest.approx(0.0, abs=1e-9) and math.isfinite(many)


def test_images_are_made_of_the_sets_that_are_given(data, tmp_path, monkeypatch):  # noqa: F811
    from PIL import Image

    monkeypatch.setattr(draw, "SAMPLED", (("mnist", 10.0), ("cifar10", 10.0)))
    small = {
        "teachers": "6",
        "steps": "2",
        "warmup": "1",
        "teacher_batch": "2",
        "batch": "4",
        "topk": "10",
        "sigma": "0",
    }
    tiny = {"critic_width": "4", "critic_hidden": "4", "width": "8", "hidden": "8"}
    asked = Asked(tmp_path, {"mnist": data}, run=True, device="cpu", settings=small | tiny)
    draw.draw(ENTRIES["datalens-figure-4"], [], asked, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (10 * 32 + 4, 8 * 32 + 4)
    with pytest.raises(InputError, match="FILE.png"):
        draw.draw(ENTRIES["datalens-figure-4"], [], asked, tmp_path / "a.svg")


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="FILE.svg or FILE.png"):
        draw.draw(DRAWN[0], [], Asked(tmp_path), tmp_path / "a.gif")
