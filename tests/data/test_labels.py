"""The --labels option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfumato.data import LabelPrior, parse_labels
from sfumato.errors import InputError

CLASSES = ("ill", "well", "odd")


def test_uniform_and_private():
    assert parse_labels("uniform", CLASSES) == LabelPrior("uniform", None, None)
    assert parse_labels("private:0.25", CLASSES) == LabelPrior("private", None, 0.25)


@pytest.mark.parametrize("text", ["private:", "private:0", "private:1", "private:-1", "private:nan", "private:x"])
def test_a_share_must_be_between_0_and_1(text):
    with pytest.raises(InputError, match=r"private:FRACTION with a share of the budget between 0 and 1, found"):
        parse_labels(text, CLASSES)


@pytest.mark.parametrize("text", ["", "even", "no/such/file.json", "a\0b"])
def test_what_is_none_of_the_three_is_refused(text):
    with pytest.raises(InputError, match=r"--labels as uniform, private:FRACTION or a file of weights, found"):
        parse_labels(text, CLASSES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.json", '{"well": 1, "ill": 2.0, "odd": 1}'),
        ("w.csv", "class,weight\nwell,1\n\nill,2\nodd, 1.0\n"),
        ("w.csv", "\ufeffill,2\nwell,1\nodd,1"),
    ],
)
def test_declared_weights_follow_the_classes(tmp_path, name, text):
    (tmp_path / name).write_text(text, "utf-8")
    assert parse_labels(str(tmp_path / name), CLASSES) == LabelPrior("declared", (0.5, 0.25, 0.25), None)


def test_huge_weights_do_not_overflow(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps(dict.fromkeys(CLASSES, 1e308)))
    assert sum(parse_labels(str(tmp_path / "w.json"), CLASSES).weights) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("w.json", '{"ill": 1, "well": 1, "odd": 1, "sad": 1}', "unknown class sad; the classes are ill, well, odd"),
        ("w.json", '{"ill": 1, "well": 1}', "no weight for the class odd"),
        ("w.json", '{"ill": -1, "well": 1, "odd": 1}', "gives the class ill the weight -1; give a finite number"),
        ("w.json", '{"ill": NaN, "well": 1, "odd": 1}', "class ill the weight nan"),
        ("w.json", '{"ill": true, "well": 1, "odd": 1}', "class ill the weight True"),
        ("w.json", '{"ill": [1], "well": 1, "odd": 1}', "class ill the weight"),
        ("w.json", '{"ill": 0, "well": 0, "odd": 0}', "every class the weight 0"),
        ("w.json", '{"ill": 1, "ill": 2, "well": 1, "odd": 1}', "names the class ill twice"),
        ("w.json", "[1, 2]", "not a JSON object of class and weight"),
        ("w.json", "{", "not a JSON object"),
        ("w.json", "1" * 5000, "not a JSON object"),
        ("w.csv", "ill,1,2\n", "a line of 3 fields; write one class,weight a line"),
        ("w.csv", "ill,x\nwell,1\nodd,1\n", "class ill the weight x"),
        ("w.csv", "", "no weight for the class ill"),
    ],
)
def test_wrong_weights(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"{name} .*{says}"):
        parse_labels(str(tmp_path / name), CLASSES)


def test_a_file_that_is_not_text(tmp_path: Path):
    (tmp_path / "w.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"w.csv cannot be read as text .*save it as UTF-8"):
        parse_labels(str(tmp_path / "w.csv"), CLASSES)
