from __future__ import annotations

import json

import pytest

from sfumato.release.documents.card import make_card, size_category
from tests.release.files.test_fakes import fake_images, fake_plan, fake_statement


def _front(card: str) -> dict[str, object]:
    assert card.startswith("---\n")
    lines = card.split("---\n")[1].splitlines()
    return {line.partition(": ")[0]: json.loads(line.partition(": ")[2]) for line in lines}


def test_front_matter() -> None:
    front = _front(make_card(fake_statement() | {"measurement": None}, fake_images()))
    assert front["pretty_name"] == "chest-scans, synthetic (dp-merf)"
    assert front["task_categories"] == ["image-classification"] and front["size_categories"] == ["n<1K"]
    assert {"synthetic", "differential-privacy"} <= set(front["tags"])


def test_a_hostile_name_stays_in_its_quotes() -> None:
    plan = fake_plan(data={"name": 'x"\nlicense: mit\n---\n<b>'})
    card = make_card(fake_statement(plan) | {"measurement": None}, fake_images())
    assert "license" not in _front(card) and "\nlicense" not in card and "<b>" not in card.split("---\n", 2)[2]


@pytest.mark.parametrize(("format", "there"), [("png", "images/<class>/<number>.png"), ("parquet", "data.parquet ")])
def test_sections(format: str, there: str) -> None:
    card = make_card(fake_statement() | {"measurement": None}, fake_images(), format)
    for title in (
        "What this is",
        "The guarantee",
        "Layout",
        "How to load",
        "Limitations",
        "What it must not be used for",
    ):
        assert f"\n## {title}\n" in card
    assert there in card and "Release.load" in card and "at most about 55 %" in card
    assert "measurement.safetensors" not in card


@pytest.mark.parametrize(("count", "name"), [(999, "n<1K"), (1000, "1K<n<10K"), (60_000, "10K<n<100K")])
def test_size_category(count: int, name: str) -> None:
    assert size_category(count) == name
