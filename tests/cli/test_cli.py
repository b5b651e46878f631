"""The command line as a whole: help, endings, texts and the rule for its imports."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato import __version__
from sfumato.cli import ending, options, run, show
from sfumato.errors import AuditFailed, InputError, Interrupted, OverBudget

CLI = Path(ending.__file__).parent
ALLOWED = {"sfumato.api", "sfumato.flow.request", "sfumato.errors", "sfumato.run.progress", "sfumato.__version__"}
ALLOWED |= {  # which stand above the api
    "sfumato.bench.run",
    "sfumato.bench.measured",
    "sfumato.bench.view",
    "sfumato.studio.server",
    "sfumato.studio.settings",
}
DESCRIBED = ("--records", "6000", "--shape", "1x28x28", "--classes", "10")
FLAGS = (
    "method",
    "epsilon",
    "delta",
    "relation",
    "count",
    "size",
    "grey",
    "split",
    "label",
    "person",
    "labels",
    "public",
    "format",
    "set",
    "seed",
    "device",
    "ledger",
    "out",
    "resume",
    "json",
    "provenance",
    "private-count",
    "records",
)
PLAN = ("plan", "--method", "dp-merf", "--epsilon", "1", "--labels", "uniform", *DESCRIBED)


def call(*argv: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of one command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([str(arg) for arg in argv])
    return status, out.getvalue(), err.getvalue()


def refused(*argv: object) -> str:
    """The one sentence that an input error ends with."""
    status, out, err = call(*argv)
    assert (status, out) == (2, ""), err
    *before, last = err.splitlines()
    assert last.startswith("error: ") and set(before) <= {"reading images ..."}
    return last.removeprefix("error: ")


def shell(*argv: object, **changes: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "sfumato", *map(str, argv)]
    environment = {**os.environ, **changes}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            own = node.module in ("sfumato", "sfumato.cli", "sfumato.flow")
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if own else {node.module}
    return {name for name in found if name.split(".")[0] == "sfumato"}


def typing_only(path: Path) -> set[str]:
    """Names imported for the type checker alone."""
    guards = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.If)]
    blocks = [n.body for n in guards if isinstance(n.test, ast.Name) and n.test.id == "TYPE_CHECKING"]
    return {line.module for body in blocks for line in body if isinstance(line, ast.ImportFrom)}


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.name)
def test_imports_only_the_joint(path):
    ours = {name for name in imports_of(path) if not name.startswith("sfumato.cli")} - typing_only(path)
    assert ours <= ALLOWED


@pytest.mark.parametrize("argv", [["--help"], ["synthesize", "--help"], ["--version"]])
def test_help_is_light(argv):
    code = (
        "import sys\nfrom sfumato.cli import run\n"
        f"status = run({argv!r})\n"
        "heavy = {'torch', 'scipy', 'pyarrow', 'PIL', 'matplotlib', 'sklearn', 'dp_accounting'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_help_names_every_verb_and_flag():
    assert all(verb in call("--help")[1] for verb in ("methods", "plan", "synthesize", "refit", "sample", "budget"))
    text = shell("synthesize", "--help", COLUMNS="80").stdout
    for name in FLAGS:
        assert f"--{name} " in text


def test_version():
    assert call("--version") == (0, f"sfumato {__version__}\n", "")


def test_bare_command_shows_help():
    status, out, err = call()
    assert status == 2 and "synthesize" in out + err and "error" not in err


def test_entry_point():
    done = subprocess.run(
        [Path(sys.executable).parent / "sfumato", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"sfumato {__version__}\n")


def test_usage_errors_are_one_sentence():
    assert "No such command" in refused("paint")
    assert "--epsilon" in refused("plan", "--method", "dp-merf", *DESCRIBED)
    assert "--nope" in refused("methods", "--nope")
    assert "epsilon" in refused("plan", "--method", "dp-merf", "--epsilon", "much", *DESCRIBED)


def test_errors_are_json_too():
    status, out, err = call("plan", "--method", "nope", "--epsilon", "1", *DESCRIBED, "--json")
    assert json.loads(out) == {"error": err.removeprefix("error: ").strip(), "exit": 2} and status == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("a"), 2),
        (OverBudget("a"), 3),
        (AuditFailed("a"), 4),
        (KeyboardInterrupt(), 130),
        (MemoryError(), 2),
        (RuntimeError("odd"), 1),
        (RuntimeError("can't allocate memory"), 2),
        (Interrupted("Stopped. --resume x"), 130),
    ],
)
def test_every_ending_has_its_status(error, status, capsys):
    def fail():
        raise error

    assert ending.ended(fail, as_json=True) == status
    out, err = capsys.readouterr()
    assert json.loads(out)["exit"] == status and err.count("\n") == 1 and "Traceback" not in err


def test_ctrl_c_in_any_verb_is_130(monkeypatch):
    def interrupt(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.api.methods", interrupt)
    status, out, err = call("methods", "--json")
    assert status == 130 and json.loads(out)["exit"] == 130 and err.startswith("Stopped")


def test_an_unexpected_error_names_the_way_to_its_traceback(capsys, monkeypatch):
    def fail():
        raise RuntimeError("odd\nthing")

    assert ending.ended(fail, as_json=False) == 1
    sentence = "internal error: RuntimeError: odd thing; run with SFUMATO_DEBUG=1 for the traceback\n"
    assert capsys.readouterr().err == sentence
    monkeypatch.setenv("SFUMATO_DEBUG", "1")
    ending.ended(fail, as_json=False)
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m sfumato {' '.join(PLAN)} --json; echo status $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert "status 141" in done.stderr or "status 0" in done.stderr  # 0 where it wrote before the reader had left


def test_a_terminal_without_unicode_is_served():
    done = shell(*PLAN, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0 and done.stdout.isascii() and "epsilon 1 at delta" in done.stdout
    done = shell("budget", "/no/such/größe", PYTHONIOENCODING="ascii")
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_settings():
    assert options.settings(["a=1", "b=x=y", " c = 2"]) == {"a": "1", "b": "x=y", "c": "2"}
    for given in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(InputError):
            options.settings(given)


def test_the_unit_follows_the_person_column():
    assert options.check_unit(None, None) == "record" and options.check_unit("person", "who") == "person"
    for unit, person in (("person", None), ("record", "who"), ("planet", None)):
        with pytest.raises(InputError):
            options.check_unit(unit, person)


def test_untrusted_text_is_shown_as_it_is():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        show.console().print(show.pairs([("name", "[red]x[/red]\x1b[31m :smile:")]))
    assert "[red]x[/red]\\x1b[31m :smile:" in out.getvalue()


def test_numbers_are_never_flattering():
    assert show.at_most(1.00001) == "1.001" and show.at_most(0.9999999993) == "1" and show.at_least(0.99999) == "0.9999"
    assert show.number(float("inf")) == "inf" and show.finite({"a": [float("nan"), 1.0]}) == {"a": [None, 1.0]}


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("synthesize", "--resume"),
        ("runs", "--resume"),
        ("evaluate", "nothing was written"),
        ("sample", "Stopped at once."),
    ],
)
def test_only_what_can_be_resumed_speaks_of_it(verb, words, capsys):
    def stop():
        raise KeyboardInterrupt

    assert ending.ended(stop, as_json=False, verb=verb) == 130
    said = capsys.readouterr().err
    assert words in said and ("--resume" in said) == (verb in ("synthesize", "runs"))
