"""A slip of the finger is answered at once: nothing slow is imported for it. `benchmarks/startup.py` has the times."""

from __future__ import annotations

import os

import pytest

from benchmarks.startup import LINES, once


@pytest.mark.parametrize("name", LINES)
def test_nothing_slow_is_imported_for_a_slip_of_the_finger(name):
    _, status, heavy = once(LINES[name])
    assert status == (0 if name.startswith("help") else 2)
    assert heavy == []


def test_a_command_that_needs_torch_is_seen_to_import_it():
    line = ("plan", "--method", "dp-merf", "--epsilon", "1", "--records", "60", "--shape", "1x8x8", "--classes", "2")
    _, status, heavy = once(line)
    assert status == 0 and "torch" in heavy


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_verbs(shell, monkeypatch):
    import subprocess
    import sys

    words = {"bash": {"COMP_WORDS": "sfumato syn", "COMP_CWORD": "1"}}
    asked = words.get(shell, {"_TYPER_COMPLETE_ARGS": "sfumato syn", "_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    environment = {**os.environ, **asked, "_SFUMATO_COMPLETE": f"complete_{shell}"}
    done = subprocess.run(
        [sys.executable, "-m", "sfumato"], capture_output=True, text=True, env=environment, check=False, timeout=60
    )
    assert "synthesize" in done.stdout and "evaluate" not in done.stdout


def test_the_script_for_a_shell_is_printed():
    import subprocess
    import sys

    line = [sys.executable, "-m", "sfumato", "--show-completion", "bash"]
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # not whichever shell runs the tests
    done = subprocess.run(line, capture_output=True, text=True, env=named, check=False, timeout=60)
    assert done.returncode == 0 and "_SFUMATO_COMPLETE" in done.stdout, done.stderr
