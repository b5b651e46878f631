"""The documentation against the code: names exist, links resolve, command lines parse, examples run, tables agree."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import shlex
import sys
import types
from functools import cache
from pathlib import Path

import pytest
import typer

from docs import hooks, tables
from sfumato import api, cli
from sfumato.accounting import claims
from sfumato.audit.gallery import BUGS
from sfumato.classify import PATE, Classifier
from sfumato.methods import find, names
from tests.made_up import arrays

ROOT = Path(__file__).parents[1]
PAGES = tables.pages()
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
COMMAND = typer.main.get_command(cli.app)


def text(name: str) -> str:
    return (ROOT / name).read_text()


@cache
def functions(name: str) -> set[str]:
    path = ROOT / "tests" / name
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def named_tests(line: str) -> list[tuple[str, str]]:
    """(file, function) of each test that a line names; `::name` alone is in the file named before it."""
    found, file = [], ""
    for given, function in re.findall(r"`(?:tests/)?((?:(?:\w+/)*test_\w+\.py)?)::(\w+)`", line):
        file = given or file
        found.append((file, function))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_test_that_is_named_exists(name):
    named = [test for line in text(name).splitlines() for test in named_tests(line)]
    assert [test for test in named if test[1] not in functions(test[0])] == []
    files = re.findall(r"`tests/((?:\w+/)*test_\w+\.py)`", text(name))
    missing = [file for file in files if not (ROOT / "tests" / file).is_file()]
    assert set(missing) <= {"methods/FAMILY/test_your_method.py"}


@pytest.mark.parametrize("name", NAMES)
def test_every_module_that_is_named_exists(name):
    """`folder/module.py` in backticks is a file of the repository or of the package."""
    named = re.findall(r"`((?:\w+/)+\w+\.py)\b", text(name))
    missing = {path for path in named if not any((root / path).is_file() for root in (ROOT, ROOT / "sfumato"))}
    assert {path for path in missing if "your_method" not in path} == set()


def test_every_formula_of_a_paper_that_is_named_exists():
    named = re.findall(r"`claims\.(\w+)`", text("docs/privacy.md"))
    assert named and [formula for formula in named if not hasattr(claims, formula)] == []


def test_every_noun_is_where_the_table_says():
    rows = re.findall(r"^\| `(\w+)` \| .* \| `([\w/]+)\.py` \|$", text("docs/barrier.md"), flags=re.M)
    homes = {noun: importlib.import_module("sfumato." + path.replace("/", ".")) for noun, path in rows}
    assert len(homes) > 20 and [noun for noun, home in homes.items() if not hasattr(home, noun)] == []


def test_every_pitfall_has_its_row_and_its_proof():
    rows = [line.split("|") for line in text("docs/pitfalls.md").splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[1]) for row in rows] == list(range(1, 30))
    assert [row[1] for row in rows if not (named_tests(row[4]) or re.search(r"B\d\d", row[4]))] == []
    known = {bug.id for bug in BUGS}
    assert set(re.findall(r"\bB\d\d\b", text("docs/pitfalls.md") + text("docs/privacy.md"))) <= known


def test_the_gallery_is_told_as_it_is():
    rows = [
        [cell.strip() for cell in line.split("|")[1:4]]
        for line in text("docs/audit.md").splitlines()
        if re.match(r"\| B\d\d \|", line)
    ]
    assert rows == [[bug.id, bug.name, ", ".join(bug.by) or "sound: must pass"] for bug in BUGS]


def test_numbers_of_bugs_and_pitfalls_are_told_as_they_are():
    planted = sum(bool(bug.by) for bug in BUGS)
    told = re.findall(r"(\d+) seeded faults", text("README.md") + text("docs/audit.md"))
    assert set(told) == {str(planted)}
    assert "29 known pitfalls" in text("README.md")


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- table:" in page.read_text()], ids=str)
def test_tables_are_what_the_code_says(page):
    """`python -m docs.tables` writes them anew."""
    assert tables.written(page) == page.read_text()


@pytest.mark.parametrize("method", names())
def test_every_method_has_its_page_with_its_settings(method):
    assert f"<!-- table: method {method} -->" in tables.page_of(method).read_text()


def settings_of_methods() -> set[str]:
    return {field for method in names() for field in find(method)().settings()}


@pytest.mark.parametrize("name", NAMES)
def test_settings_that_are_named_exist(name):
    """After `--set` or `--grid`, and in the tables of settings that are written by hand."""
    page = ROOT / name
    given = re.findall(r"--(?:set|grid) ((?:\w+=\S+ ?)+)", text(name))
    fields = {field for words in given for field in re.findall(r"(?:^| )(\w+)=", words)} - {"field", "FIELD"}
    assert fields <= settings_of_methods() | set(Classifier().settings()) | set(PATE().settings())
    if page.parent.name == "methods" and page.stem in names():
        known = set(find(page.stem)().settings())
        told = re.findall(r"^\| setting \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text(name), flags=re.M)
        first = {row.split("|")[1] for part in told for row in part.splitlines()}
        assert {word for cell in first for word in re.findall(r"`(\w+)`", cell)} <= known


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", NAMES)
def test_links_resolve(name):
    page, broken = ROOT / name, []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text(name), flags=re.S)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def command_lines(source: str) -> list[list[str]]:
    """Every `sfumato VERB ...` in a code block or in backticks, without its comment."""
    found = re.findall(r"^(?: {4}|\t)?sfumato [^\n]*$", source, flags=re.M) + re.findall(r"`(sfumato [^`\n]*)`", source)
    lines = [shlex.split(line.strip(), comments=True)[1:] for line in found if "[OPTIONS]" not in line]
    return [line for line in lines if line and not line[0].startswith("-")]


# Words in backticks that stand for a verb and not for a whole command line.
BARE = {(verb,) for verb in COMMAND.commands}


@pytest.mark.parametrize("name", NAMES)
def test_command_lines_parse(name, tmp_path, monkeypatch):
    (tmp_path / "release-run.yaml").write_text("data: scans\n")  # which a config option reads at once
    monkeypatch.chdir(tmp_path)
    for line in command_lines(text(name)):
        assert line[0] in COMMAND.commands, line
        if tuple(line) in BARE:
            continue
        try:
            COMMAND.commands[line[0]].make_context(line[0], line[1:])
        except Exception as error:
            fragment = type(error).__name__ == "MissingParameter" and len(line) == 2  # `sfumato tune --private`
            assert fragment, f"{name}: {shlex.join(line)}: {error}"


def test_every_verb_is_documented():
    told = {line[0] for name in NAMES for line in command_lines(text(name))}
    assert told == set(COMMAND.commands)


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text(name), flags=re.S)


def cheaply(method, data, budget, run=None, **options):
    """`synthesize` at the smallest size that an example could ask for."""
    sizes = {field: 6 for field in ("steps", "features", "fits", "finish") if field in method.settings()}
    return SYNTHESIZE(method.small().at_most(**sizes), data, budget, run, **options | {"count": 30})


SYNTHESIZE = api.synthesize
RUN = [name for name in NAMES if any(not block.startswith(">>>") for block in blocks(name))]


@pytest.mark.parametrize("name", RUN)
def test_python_blocks_run(name, tmp_path, monkeypatch):
    """In their order, in a folder with the images and, where a page begins with one, the release that they speak of."""
    from PIL import Image

    pixels, _ = arrays(n=40, size=28, classes=2)
    for number, image in enumerate(pixels):
        place = tmp_path / "scans" / ("ill", "well")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "synthesize", cheaply)
    if name == "docs/release.md":
        cheaply(find("dp-merf")(), "scans", api.make_budget(1.0), out="release")
    space: dict[str, object] = {"__name__": "example"}
    monkeypatch.setitem(sys.modules, "example", types.ModuleType("example"))
    for block in blocks(name):
        if not block.startswith(">>>"):
            exec(compile(block, name, "exec"), space)


@pytest.mark.parametrize("name", [name for name in NAMES if ">>>" in text(name)])
def test_examples_run(name):
    made = doctest.DocTestParser().get_doctest(text(name), {}, name, name, 0)
    assert doctest.DocTestRunner(verbose=False).run(made).failed == 0


def test_a_page_that_fetches_from_elsewhere_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<a href="https://example.org">read</a><img src="images/a.png">')
    assert hooks.fetched(tmp_path) == []
    (tmp_path / "b.html").write_text('<script async src="https://example.org/a.js"></script>')
    (tmp_path / "c.css").write_text("@import url(//example.org/font.css);")
    assert [hit.split(":")[0] for hit in hooks.fetched(tmp_path)] == ["b.html", "c.css"]


def test_the_navigation_names_every_page():
    import yaml

    told = (ROOT / "mkdocs.yml").read_text()
    config = types.SimpleNamespace(nav=yaml.safe_load(told)["nav"])
    listed = set(re.findall(r"[\w/-]+\.md", str(hooks.on_config(config).nav)))
    assert listed == {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
