"""Releases side by side: what is compared, what is marked, where it is written."""

from __future__ import annotations

import json
import stat

import pytest

from sfumato import Release, api
from sfumato.errors import InputError
from sfumato.evaluate.compare import compare, mark
from tests.evaluate.test_report import fake_real, fake_report
from tests.release.documents.test_report import Page
from tests.release.files.test_fakes import fake_images, fake_plan, fake_release, fake_statement


@pytest.fixture
def made(tmp_path):
    """Writes a release, and its evaluation unless told otherwise."""

    def make(name, evaluated=True, public=True, **guarantee):
        plan = fake_plan(guarantee={"mu": None, **guarantee}, data={"unit": guarantee.get("unit", "record")})
        plan["curve"] = []
        whole = fake_release(fake_images(30))
        release = Release(whole.generator, whole.images, fake_statement(plan), whole.measurement)
        release.save(tmp_path / name)
        if evaluated:
            place = tmp_path / f"{name}-evaluation"
            place.mkdir()
            report = fake_report(release, fake_real(public))
            (place / "evaluation.json").write_text(report.text())
        return tmp_path / name

    return make


def test_rows_carry_the_guarantee_and_what_was_measured(made, tmp_path):
    folders = [made("one"), made("two", epsilon=4.0), made("three", evaluated=False)]
    found = compare(folders, tmp_path / "out")
    one, two, three = found["rows"]
    assert (one["method"], one["epsilon"], two["epsilon"], one["relation"]) == ("dp-merf", 1.0, 4.0, "add-remove")
    written = json.loads((tmp_path / "one-evaluation" / "evaluation.json").read_text())["sections"]
    assert one["accuracy"] == written["utility"]["synthetic"]["classifiers"]["cnn"]["fixed"]
    assert one["fid"] == written["fidelity"]["values"]["fid/classifier"] and found["classifier"] == "cnn"
    assert three["accuracy"] is None and three["notes"] == ["not evaluated"]
    assert all(row["comparable"] for row in found["rows"]) and not found["touches_private"]
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"] == found["rows"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["comparison.html", "comparison.json"]


def test_a_row_under_other_terms_is_marked_wherever_it_stands(made, tmp_path):
    folders = [made("odd", delta=1e-6, relation="replace-one"), made("one"), made("two", epsilon=2.0)]
    found = compare(folders, tmp_path / "out")
    assert [row["comparable"] for row in found["rows"]] == [False, True, True]
    assert found["rows"][0]["mark"] == "not comparable: other relation, other delta"
    html = (tmp_path / "out" / "comparison.html").read_text()
    text = Page(html).text
    assert text.count("not comparable: other relation, other delta") == 2  # in the table and above its images
    assert html.count('class="hollow"') == 1 and html.count('class="mark"') == 2 and "1 row differs" in text


def test_other_units_data_and_test_sets_are_marked():
    row = {"relation": "add-remove", "unit": "record", "delta": 1e-5, "data": "x", "test": "x (10)"}
    rows = [dict(row), row | {"unit": "person"}, row | {"data": "y"}, row | {"test": "x (20)"}, row | {"test": None}]
    mark(rows)
    assert [r["mark"].removeprefix("not comparable: ") for r in rows] == [
        "",
        "other unit",
        "other data",
        "other test set",
        "",
    ]


def test_numbers_of_private_data_make_the_comparison_internal(made, tmp_path):
    found = compare([made("one", public=False), made("two", epsilon=2.0)], tmp_path / "out")
    page = tmp_path / "out" / "comparison.html"
    assert found["touches_private"] and "Internal: numbers from private data" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_the_page_shows_synthetic_images_alone_and_loads_nothing(made, tmp_path):
    compare([made("one", evaluated=False), made("two", evaluated=False)], tmp_path / "out")
    found = Page((tmp_path / "out" / "comparison.html").read_text())
    images = [a for tag, a in found.tags if tag == "img"]
    assert len(images) == 2 * 3 * 5 and all(a["alt"].startswith("synthetic image") for a in images)
    assert all(a["src"].startswith("data:") for a in images) and "script" not in {tag for tag, _ in found.tags}
    assert "None of these releases has been evaluated" in found.text


def test_an_evaluation_of_another_release_is_not_believed(made, tmp_path):
    one, two = made("one"), made("two", epsilon=3.0)
    (tmp_path / "one-evaluation" / "evaluation.json").write_bytes(
        (tmp_path / "two-evaluation" / "evaluation.json").read_bytes()
    )
    found = compare([one, two], tmp_path / "out")
    assert found["rows"][0]["accuracy"] is None and "another release" in found["rows"][0]["notes"][0]


def test_what_is_wrong_is_one_sentence(made, tmp_path):
    one, two = made("one"), made("two", epsilon=3.0)
    for folders, out, word in (
        ([one], "out", "at least two"),
        ([one, one], "out", "given twice"),
        ([one, two], "two/inside", "within the release"),
        ([one, tmp_path / "none"], "out", "missing"),
    ):
        with pytest.raises(InputError, match=word):
            compare(folders, tmp_path / out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        compare([one, two], tmp_path / "full")
    (tmp_path / "one-evaluation" / "evaluation.json").write_text("{}")
    with pytest.raises(InputError, match="no readable evaluation"):
        compare([one, two], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_earlier_comparison_is_replaced(made, tmp_path):
    one, two, three = made("one"), made("two", epsilon=3.0), made("three", epsilon=5.0)
    compare([one, two], tmp_path / "out")
    assert len(compare([one, two, three], tmp_path / "out")["rows"]) == 3


def test_the_command_shows_the_table_and_the_marks(made, tmp_path, capsys, monkeypatch):
    from sfumato.cli.compare import compare as command

    monkeypatch.setattr(api, "compare", compare, raising=False)
    folders = [str(made("one", public=False)), str(made("two", delta=1e-6)), str(made("three", evaluated=False))]
    command(folders, str(tmp_path / "out")).give()
    shown = capsys.readouterr().out
    assert "dp-merf" in shown and "row 2 is not comparable: other delta" in shown and "comparison.html" in shown
    assert "do not publish" in shown and max(map(len, shown.replace(str(tmp_path), "").splitlines())) <= 80
    command(folders, str(tmp_path / "out"), json=True).give()
    assert json.loads(capsys.readouterr().out)["rows"][1]["mark"] == "not comparable: other delta"
