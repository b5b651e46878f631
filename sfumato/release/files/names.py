"""Names fit for publication: no local paths in words, no surprises in folder names."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Any

_LOADER = re.compile(r"[^\W\d][\w-]*")  # a loader's prefix, as in celeba-hair:PATH
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_TEXTS = ("--provenance", "--label", "--person", "--split")
# Two or more components from the root or the home folder; a URL or "and/or" does not match.
_PATH = re.compile(r"(?<![\w/.:~])(?:\w+:)?(?:~?(?:/[^\s/:\"'<>|]+){2,}/?|[A-Za-z]:\\[^\s:\"'<>|]+)")


def base_name(name: str) -> str:
    r"""The last component of a path-like name; a loader's prefix stays.

    >>> base_name("/home/ann/scans"), base_name("mnist:/data/mnist/"), base_name("C:\\ann\\scans"), base_name("digits")
    ('scans', 'mnist:mnist', 'scans', 'digits')
    >>> base_name("celeba-hair:/home/ann/faces")
    'celeba-hair:faces'
    """
    prefix, colon, rest = name.partition(":")
    if _DRIVE.match(name) or not colon or "/" in prefix or not _LOADER.fullmatch(prefix):
        prefix = ""
        colon = ""
        rest = name
    last = re.split(r"[\\/]", rest.rstrip("\\/"))[-1]
    return prefix + colon + (last if last not in ("", ".", "..") else "data")


def hide_paths(text: str) -> str:
    """Sentences with every absolute path in them cut to its last component."""
    return _PATH.sub(lambda match: base_name(match.group()), text)


def public_command(command: str) -> str:
    """A command line whose arguments name files by their last component alone."""
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        return hide_paths(command)
    # Names of columns and sentences are no paths, though a slash may be in them.
    before = ["", *words]
    return shlex.join(
        hide_paths(word) if at in _TEXTS else _public_word(word) for at, word in zip(before, words, strict=False)
    )


def _public_word(word: str) -> str:
    option, equals, value = word.partition("=")
    if equals and "/" not in option:
        return f"{option}={_public_word(value)}"
    fraction = re.fullmatch(r"[\d.]+/[\d.]+", word)
    return base_name(word) if not fraction and ("/" in word or "\\" in word) else word


def scrub(value: Any, name: str) -> Any:
    """A JSON value in which the data's full name and all absolute paths are cut to their last component."""
    if isinstance(value, str):
        return hide_paths(value.replace(name, base_name(name)) if name and name != base_name(name) else value)
    if isinstance(value, dict):
        return {key: scrub(part, name) for key, part in value.items()}
    return [scrub(part, name) for part in value] if isinstance(value, list | tuple) else value


def class_folders(classes: Sequence[str]) -> list[str]:
    """One safe and distinct folder name for each class, the same every time.

    >>> class_folders(["0", "a/b", "a_b", "..", "A_B"])
    ['0', 'a_b', 'a_b-2', 'class', 'A_B-3']
    """
    taken: set[str] = set()
    return [_distinct(_safe(name), taken) for name in classes]


def _safe(name: str) -> str:
    """Letters, digits and a little punctuation; at most 50 characters, so that 255 bytes always hold it."""
    name = re.sub(r"[^\w .-]+", "_", unicodedata.normalize("NFC", name))
    return re.sub(r"^[\W_]+|[ .]+$", "", re.sub(r"^[\W_]+", "", name)[:50]) or "class"


def _distinct(name: str, taken: set[str]) -> str:
    # Case folds together because some file systems do.
    count = 1
    while (free := name if count == 1 else f"{name}-{count}").casefold() in taken:
        count += 1
    taken.add(free.casefold())
    return free
