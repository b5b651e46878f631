from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from sfumato.release.documents.report import COLUMNS, MOST_CLASSES, make_report, sample_rows
from sfumato.release.statement.curve import curve_points, curve_svg
from sfumato.release.statement.statement import TITLES
from sfumato.types import Images
from tests.release.files.test_fakes import SECRET_PATH, fake_images, fake_plan, fake_statement

VOID = {"meta", "img", "br", "line", "circle", "polygon", "polyline"}


class Page(HTMLParser):
    """Every tag with its attributes, and the text; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def html() -> str:
    command = f"sfumato synthesize {SECRET_PATH} --epsilon 1"
    return make_report(fake_statement(), fake_images(90), command=command)


def test_a_hostile_class_name_is_text(html: str) -> None:
    page = Page(html)
    assert "script" not in {tag for tag, _ in page.tags}
    assert "a/b <script>alert(1)</script>" in page.text
    assert "&lt;script&gt;alert(1)" in html


def test_a_hostile_data_name_is_text() -> None:
    plan = fake_plan(data={"name": '"><img src=x onerror=alert(1)>'})
    page = Page(make_report(fake_statement(plan), fake_images()))
    assert not any("onerror" in attributes for _, attributes in page.tags)


def test_nothing_is_loaded_from_anywhere(html: str) -> None:
    page = Page(html)
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "embed", "base"} == set()
    loads = [a[name] for _, a in page.tags for name in ("src", "href", "xlink:href", "data", "srcset") if name in a]
    assert loads and all(str(address).startswith("data:image/png;base64,") for address in loads)
    assert not re.search(r"https?://|@import|url\(", html)


def test_the_page_tells_the_whole_story(html: str) -> None:
    text = Page(html).text
    for words in (
        "In plain words",
        "What was made",
        "The privacy curve",
        "Noisy queries",
        "Settings",
        "Limitations",
        "How to reproduce",
        "The full statement",
        "at most about 55 % of the time",
        "sfumato synthesize chest-scans",
        "A sum is released in place of a mean.",
    ):
        assert words in text
    assert all(title in text for title in TITLES.values())
    assert html.count("<details>") == 12 and "very-private" not in html


def test_sample_rows() -> None:
    rows = sample_rows(fake_images(90))
    assert [(len(row["pictures"]), row["count"]) for row in rows] == [(COLUMNS, 30)] * 3
    lonely = Images(np.zeros((2, 3, 300, 200), np.uint8), np.array([1, 1]), ("none", "some"))
    assert [len(row["pictures"]) for row in sample_rows(lonely)] == [0, 2]


def test_many_classes_are_cut_and_said_so() -> None:
    images = Images(np.zeros((50, 1, 8, 8), np.uint8), np.arange(50), tuple(f"c{n}" for n in range(50)))
    assert len(sample_rows(images)) == MOST_CLASSES
    assert "10 more classes are not shown" in make_report(fake_statement(), images)


def test_the_curve_goes_through_the_stated_point() -> None:
    points = curve_points(fake_statement()["guarantee"])
    assert points == sorted(points) and all(a[1] >= b[1] for a, b in zip(points, points[1:], strict=False))
    log_deltas = np.log10([delta for delta, _ in points])
    assert np.interp(-5, log_deltas, [eps for _, eps in points]) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(("epsilon", "delta", "curve"), [(10.0, 1e-5, []), (0.1, 1e-12, [[0.5, 0.0]]), (3.0, 0.09, [])])
def test_the_curve_stays_inside_its_frame(epsilon: float, delta: float, curve: list[list[float]]) -> None:
    plan = fake_plan(guarantee={"mu": None, "epsilon": epsilon, "delta": delta})
    plan["curve"] = curve
    svg = str(curve_svg(fake_statement(plan)["guarantee"]))
    numbers = [float(n) for n in re.findall(r'\b(?:x1?|y1?|cx|cy)="([-\d.]+)"', svg)]
    assert numbers and all(0 <= number <= 560 for number in numbers)
    assert "ε = " in svg and "nan" not in svg
