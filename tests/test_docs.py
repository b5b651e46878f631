"""The documentation against the code: named tests exist, links resolve, command lines parse, examples run."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer

from sfumato import cli
from sfumato.audit.gallery import BUGS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
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
    for given, function in re.findall(r"`(?:tests/)?((?:test_\w+\.py)?)::(\w+)`", line):
        file = given or file
        found.append((file, function))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_test_that_is_named_exists(name):
    named = [test for line in text(name).splitlines() for test in named_tests(line)]
    assert [test for test in named if test[1] not in functions(test[0])] == []
    files = re.findall(r"`tests/(test_\w+\.py)`", text(name))
    missing = [file for file in files if not (ROOT / "tests" / file).is_file()]
    assert set(missing) <= {"test_methods_your_method.py"}


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
    assert rows == [[bug.id, bug.name, ", ".join(bug.by) or "control: must pass"] for bug in BUGS]


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
    lines = [shlex.split(line.strip(), comments=True)[1:] for line in found]
    return [line for line in lines if line and not line[0].startswith("-")]


# Words in backticks that stand for a verb and not for a whole command line.
BARE = {(verb,) for verb in COMMAND.commands}


@pytest.mark.parametrize("name", NAMES)
def test_command_lines_parse(name):
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


@pytest.mark.parametrize("name", NAMES)
def test_python_blocks_compile_and_import_what_exists(name):
    for block in re.findall(r"```python\n(.*?)```", text(name), flags=re.S):
        if block.startswith(">>>"):
            continue  # run below
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sfumato"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    there = hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
                    assert there, f"{name}: {node.module}.{alias.name}"


@pytest.mark.parametrize("name", [name for name in NAMES if ">>>" in text(name)])
def test_examples_run(name):
    made = doctest.DocTestParser().get_doctest(text(name), {}, name, name, 0)
    assert doctest.DocTestRunner(verbose=False).run(made).failed == 0
