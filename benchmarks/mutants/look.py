"""In a process of its own: audit one case on the package in the working folder, and write down what was found.

A server imports what all audits need but nothing of the package, and makes a process for each question: that is
quicker than a fresh interpreter, and each of them imports the package as it is then.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

# Commands around a method that have an audit of their own: module and function, which takes the arguments of `check`.
VERBS = {
    "synthesize": ("sfumato.flow.verbs_audit", "check_synthesize"),
    "train-classifier": ("sfumato.flow.verbs_audit", "check_classifier"),
    "tune": ("sfumato.flow.verbs_audit", "check_tune"),
    "publish": ("sfumato.flow.verbs_audit", "check_publish"),
}


def serve() -> None:
    """Answer one question a line, until there are no more."""
    import scipy.stats  # noqa: F401
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, os.getcwd())
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"status": _apart(asked)}), flush=True)


def _apart(asked: dict[str, Any]) -> int | str:
    """The exit status of a process that answers, or "late" where it had to be ended."""
    pid = os.fork()
    if not pid:
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = 1
        try:
            answer(asked)
            status = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(status)
    ends = time.monotonic() + asked["limit"]
    while time.monotonic() < ends:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "late"


def answer(asked: dict[str, Any]) -> None:
    """Audit, and write what was found into a file."""
    import sfumato

    assert Path(sfumato.__file__).resolve().is_relative_to(Path.cwd().resolve()), sfumato.__file__
    began = time.monotonic()
    reached = Reached(asked["lines"])
    reports = []
    with reached:
        for seed in asked["seeds"]:
            rows, note = audited(asked["case"], asked["level"], seed)
            reports.append({"seed": seed, "rows": rows, "note": note})
    found = {"reports": reports, "reached": reached.found, "seconds": time.monotonic() - began}
    Path(asked["answer"]).write_text(json.dumps(found))


def audited(case: dict[str, Any], level: int, seed: int) -> tuple[list[dict[str, Any]], str]:
    """Failed and passed rows of all audits that the case has, and what is missing."""
    from sfumato import audit
    from sfumato.audit.recording import recording_barrier

    recording_barrier.FILES = True
    rows: list[dict[str, Any]] = []
    method, options = subject(case)
    if method is not None:
        rows += audit.check(method, level=level, seed=seed, **options).to_json()["rows"]
    if not case["verb"]:
        return rows, ""
    module, name = VERBS[case["verb"]]
    verb: Callable[..., Any] | None = getattr(importlib.import_module(module), name, None)
    if verb is None:
        return rows, f"{case['verb']} has no audit of its own"
    return rows + verb(method, seed=seed, **options).to_json()["rows"], ""


def subject(case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The method, and the arguments of `check`."""
    from sfumato.accounting.budget import Budget, Relation, Unit
    from sfumato.audit import check
    from sfumato.data.labels import parse_labels
    from sfumato.types import DataSpec

    classes = tuple(str(i) for i in range(case["classes"]))
    unit = Unit.PERSON if case["person"] else Unit.RECORD
    spec = DataSpec(
        "made up", case["records"], tuple(case["shape"]), classes, unit=unit, count_public=case["count_public"]
    )
    options = {"spec": spec, "budget": Budget(case["epsilon"], relation=Relation(case["relation"]), unit=unit)}
    if case["device"] != "cpu" and "device" in check.__code__.co_varnames:
        options["device"] = case["device"]
    if not case["method"]:
        return None, options
    if case["method"] == "classifier":
        from sfumato.classify.classifier import Classifier

        return Classifier(**case["settings"]), options
    from sfumato.methods import find

    settings = dict(case["settings"])
    if case["labels"] != "uniform":
        settings["labels"] = parse_labels(case["labels"], classes)
    return find(case["method"])(**settings), options


class Reached:
    """Whether a line that was planted was ever run; tracing ends with the first one."""

    def __init__(self, lines: dict[str, list[int]]) -> None:
        here = Path.cwd().resolve() / "sfumato"
        self._lines = {str(here / file): set(numbers) for file, numbers in lines.items()}
        self.found: bool | None = None if not any(self._lines.values()) else False

    def __enter__(self) -> None:
        if self.found is not None:
            sys.settrace(self._called)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code.co_filename not in self._lines or frame.f_code.co_name == "<module>":
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, value: Any) -> Any:
        if event == "line" and frame.f_lineno in self._lines[frame.f_code.co_filename]:
            self.found = True
            sys.settrace(None)
            frame.f_trace = None
            return None
        return self._line


if __name__ == "__main__":
    serve()
