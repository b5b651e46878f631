"""What stands around the package: the notebook runs, the Dockerfile copies what there is, the citation is of this."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import sfumato

ROOT = Path(__file__).parents[1]


def cells() -> list[dict[str, object]]:
    return json.loads((ROOT / "docs" / "example.ipynb").read_text())["cells"]


def test_the_notebook_runs(tmp_path, monkeypatch):
    """Its cells one after the other, as a person would; it ends with a release that verifies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    space: dict[str, object] = {}
    sources = ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]
    for source in sources:
        exec(compile(source, "example.ipynb", "exec"), space)
    import matplotlib.pyplot as plt

    plt.close("all")
    assert len(sources) == 8 and space["verdict"].ok and (tmp_path / "release" / "report.html").is_file()
    assert len(space["images"]) == 200 and tuple(space["batch"].shape) == (32, 1, 8, 8)


def test_the_notebook_is_stored_without_what_it_printed():
    assert all(cell["outputs"] == [] for cell in cells() if cell["cell_type"] == "code")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


KNOWN = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}


def test_the_dockerfile_is_read_and_copies_what_exists():
    assert {word for word, _ in instructions()} <= KNOWN
    sources = [name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]]
    assert "sfumato" in sources and [name for name in sources if not (ROOT / name).exists()] == []
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert kept == set(sources)


def test_all_that_a_build_reads_is_copied():
    """`pip install .` reads these, and would fail without them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = {name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]}
    read = {"pyproject.toml", project["readme"], *(name.split("/")[0] for name in project["license-files"])}
    assert read <= sources
    asked = next(re.search(r"'\.\[(.*?)\]'", rest) for word, rest in instructions() if word == "RUN" and "pip" in rest)
    assert asked and set(asked[1].split(",")) <= set(project["optional-dependencies"])


def test_both_bases_are_named_and_the_last_stage_stands_on_one_of_them():
    stages = [rest.split() for word, rest in instructions() if word == "FROM"]
    named = {stage[-1]: stage[0] for stage in stages}
    assert named["cpu"].startswith("python:3.") and named["cuda"].startswith("nvidia/cuda:")
    assert named["final"] == "${BASE}" and ("ARG", "BASE=cpu") in instructions()


def test_a_container_has_no_ledger_of_its_own_and_no_root():
    """A ledger that is forgotten with its container would grant the budget anew at each run."""
    after = instructions()
    assert ("USER", "1000:1000") in after and not any(word == "VOLUME" for word, _ in after)
    assert any("SFUMATO_LEDGER=/ledger/" in rest for word, rest in after if word == "ENV")
    assert not any("/ledger" in rest for word, rest in after if word in ("RUN", "COPY", "WORKDIR"))


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0" and cited["version"] == sfumato.__version__
    assert cited["license"] == "Apache-2.0" and cited["title"] and cited["message"] and cited["authors"]


@pytest.mark.parametrize("name", ["hf", "pandas", "dicom"])
def test_every_extra_that_a_sentence_names_exists(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        hit
        for path in (ROOT / "sfumato").rglob("*.py")
        for hit in re.findall(r'extra\("[\w.]+", "(\w+)"\)', path.read_text())
    }
    assert name in named and named <= set(project["optional-dependencies"])
