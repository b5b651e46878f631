"""The errors a caller may want to catch; each ends a command with its own exit status.

A sentence is written once, with the options of the command line. Whoever calls from Python reads the names of Python's
arguments in it: the functions that people call are `pythonic`, and the command line says that it is the one who asks.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_at_command_line: ContextVar[bool] = ContextVar("at_command_line", default=False)
_OPTION = re.compile(
    r"(leave out )?--([a-z][a-z-]*[a-z])(?:[ =]([A-Z][A-Z0-9_=:.]*[A-Z]|[A-Z]|[0-9a-f]{12,})(?![a-z]))?"
)
_NAMES = {"sign": "key", "set": "settings"}
_FLAGS = ("private-count", "grey", "private")


class SfumatoError(Exception):
    """One sentence for the user: what is wrong, where, and the remedy."""

    exit_code = 1


class InputError(SfumatoError, ValueError):
    """Data, a file or a setting is wrong. Raised before any budget is spent."""

    exit_code = 2


class OverBudget(SfumatoError):
    """A crossing or a run would spend more than was planned or granted."""

    exit_code = 3


class AuditFailed(SfumatoError):
    """A mechanism was caught doing something other than what it declares."""

    exit_code = 4


class RankLost(SfumatoError):
    """A process of a run is gone: one of several ranks, or that of an isolated method. The run can be resumed."""

    exit_code = 5


class Unfinished(SfumatoError):
    """A run failed after its first crossing: what was reserved stays spent, and the run can be resumed."""

    exit_code = 6


class Interrupted(SfumatoError):
    """Stopped by the user; a checkpoint is there to resume from."""

    exit_code = 130


@contextmanager
def at_command_line() -> Iterator[None]:
    """Sentences keep the options of the command line for as long as this lasts."""
    token = _at_command_line.set(True)
    try:
        yield
    finally:
        _at_command_line.reset(token)


def in_python(sentence: str) -> str:
    """A sentence with the arguments of Python for the options of the command line.

    >>> in_python("Choose another --out, or add --private-count; name the column with --person COLUMN.")
    'Choose another `out`, or add `private_count=True`; name the column with `person=COLUMN`.'
    """

    def argument(match: re.Match[str]) -> str:
        without, option, value = match.groups()
        name = _NAMES.get(option, option.replace("-", "_"))
        if option in _FLAGS and not without:
            value = "True"
        return f"{without or ''}`{name}={value}`" if value else f"{without or ''}`{name}`"

    return _OPTION.sub(argument, sentence)


def pythonic(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose errors speak of Python's arguments where the caller is not the command line."""

    @functools.wraps(function)
    def spoken(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except SfumatoError as error:
            if not _at_command_line.get() and error.args:
                error.args = (in_python(str(error.args[0])), *error.args[1:])
            raise

    return spoken


def did_you_mean(name: str, known: Iterable[str], most: int = 1, otherwise: str = "") -> str:
    """The end of a refusal: what was perhaps meant, hyphens and case aside, or `otherwise` where nothing is near.

    >>> did_you_mean("dpmerf", ["dp-nf", "dp-merf"])
    'did you mean dp-merf?'
    >>> did_you_mean("oil", ["dp-merf"], otherwise="choose dp-merf.")
    'choose dp-merf.'
    """
    bare: dict[str, str] = {}
    for each in known:
        bare.setdefault(_bare(each), each)
    near = difflib.get_close_matches(_bare(name), bare, most, cutoff=0.65)
    return f"did you mean {' or '.join(bare[each] for each in near)}?" if near else otherwise


def _bare(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def extra(module: str, name: str) -> Any:
    """A package that is not needed by everyone, or one sentence that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"This needs the package {package}; install it with pip install 'sfumato[{name}]'.") from error
