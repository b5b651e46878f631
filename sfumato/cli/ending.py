"""How a command ends: its answer on standard output, or one sentence on standard error and an exit status."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, cast

import typer

from sfumato.cli.show import Answer, finite, one_line
from sfumato.errors import Interrupted, SfumatoError, at_command_line

NO_MEMORY = "There is not enough memory for this; ask for fewer or smaller images, or smaller settings."
STOPPED = 130
READER_LEFT = 141  # as a shell reports a command whose reader closed the pipe
RESUMED = "Stopped at once; a run that had begun can be taken up with --resume."
CHARGED = "what was asked of private data stays charged, see `sfumato budget`."
AFTER_STOP = {
    "synthesize": RESUMED,
    "train-classifier": RESUMED,
    "runs": RESUMED,
    "evaluate": f"Stopped at once; nothing was written. With --publish-accuracy {CHARGED}",
    "federate": "Stopped at once; nothing is lost: call it again to go on, a site with --resume.",
    "sweep": "Stopped at once; the runs that ended are kept: call it again to go on. A private one stays charged.",
    "tune": f"Stopped at once; nothing was written. With --private {CHARGED}",
}
# Typer does not export the class that all its complaints have in common.
USAGE = cast(
    tuple[type[typer.BadParameter], ...],
    tuple(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"),
)


def ended(command: Callable[[], Any], *, as_json: bool, verb: str = "", debug: bool = False) -> int:
    """Run a command to its end. No traceback reaches the user unless it is asked for, by SFUMATO_DEBUG or --verbose.

    What is said of one that was stopped depends on its verb.
    """
    _accept_any_text()
    try:
        with at_command_line():
            status = _answered(command, as_json, verb, debug)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _forget_output()
        return READER_LEFT
    except SystemExit as left:  # of a shell's completion; or typer's and rich's way out when the reader has left
        return READER_LEFT if left.code else 0


def _answered(command: Callable[[], Any], as_json: bool, verb: str, debug: bool) -> int:
    try:
        return _give(command(), as_json, verb)
    except SfumatoError as error:
        prefix = "" if isinstance(error, Interrupted) else "error: "
        return _refuse(prefix, str(error), error.exit_code, as_json)
    except USAGE as error:
        return _refuse("error: ", error.format_message(), 2, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _stopped(as_json, verb)
    except MemoryError:
        return _refuse("error: ", NO_MEMORY, 2, as_json)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _unexpected(error, as_json, debug)


def _give(answer: Any, as_json: bool, verb: str) -> int:
    """Print an answer. Typer hands back a number where it has printed something itself."""
    if isinstance(answer, Answer):
        answer.give()
    if answer == STOPPED:
        return _stopped(as_json, verb)
    return answer if isinstance(answer, int) else 0


def _stopped(as_json: bool, verb: str) -> int:
    return _refuse("", AFTER_STOP.get(verb, "Stopped at once."), STOPPED, as_json)


def _unexpected(error: Exception, as_json: bool, debug: bool) -> int:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return _refuse("error: ", f"No space is left on the disk ({error.filename}); free some.", 2, as_json)
    if isinstance(error, RuntimeError) and re.search("allocate memory|out of memory", str(error)):
        return _refuse("error: ", NO_MEMORY, 2, as_json)  # torch has no MemoryError of its own
    if debug or os.environ.get("SFUMATO_DEBUG"):
        traceback.print_exception(error)
    sentence = f"{type(error).__name__}: {error}; run with SFUMATO_DEBUG=1 for the traceback"
    return _refuse("internal error: ", sentence, 1, as_json)


def _refuse(prefix: str, sentence: str, status: int, as_json: bool) -> int:
    sentence = one_line(sentence)
    if not sentence:
        return status  # the bare command has shown its help
    print(prefix + sentence, file=sys.stderr)
    if as_json:
        print(json.dumps(finite({"error": sentence, "exit": status})))
    return status


def _accept_any_text() -> None:
    """A terminal that lacks a character shows its escape code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Nobody reads any more; the interpreter must not complain when it flushes at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = io.StringIO()
