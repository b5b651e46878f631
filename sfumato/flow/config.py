"""A run in a file: what `--config FILE` reads, and what is written beside each release so that it can be repeated.

The file is YAML with the names of the options, `_` or `-` between words; `set` holds the settings of the method.

    data: /data/scans
    method: dp-merf
    epsilon: 1
    set:
      steps: 400

It holds paths of the custodian's machine, so it lies beside a release and never in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import InputError, did_you_mean
from sfumato.release.documents.yaml import to_yaml

HEAD = "# A run of sfumato"
TEXT = """\
{head} {version}, written beside what it made; internal: it has paths of this machine.
# Repeat it, within what is left of the budget: sfumato {verb} --config {name} --out ANOTHER
"""
SETTINGS = "set"


def config_place(out: str | Path) -> Path:
    """Where the config of a run that writes to `out` is kept."""
    place = Path(out).absolute()
    return place.with_name(f"{place.name}-run.yaml")


def check_config_place(out: str | Path) -> None:
    """Refuse to write over a file that is not such a config, before anything is spent."""
    place = config_place(out)
    try:
        ours = not place.exists() or place.read_text().startswith(HEAD)
    except (OSError, UnicodeDecodeError):
        ours = False
    if not ours:
        raise InputError(f"{place} is in the way, where the config of this run goes; move it, or choose another --out.")


def write(verb: str, out: str | Path, asked: Mapping[str, Any]) -> Path:
    """Write what was asked beside what was made; what is not set is left out."""
    place = config_place(out)
    head = TEXT.format(head=HEAD, version=__version__, verb=verb, name=place.name)
    said = {name: value for name, value in asked.items() if value is not None and value is not False and value != {}}
    try:
        place.write_text(head + to_yaml(said))
    except OSError:
        return place  # the release is there and paid for: a note beside it is not worth an error
    return place


def read(path: str | Path, known: Collection[str]) -> dict[str, Any]:
    """The options of a config file, by the names of the parameters: texts, yes or no, or lists of texts."""
    value = contents(path)
    given = {_known(str(name), known, path): part for name, part in value.items() if part is not None}
    return {name: _option(name, part, path) for name, part in given.items()}


def contents(path: str | Path, what: str = "config", holds: str = "options") -> dict[Any, Any]:
    """What a YAML file of `name: value` lines says, as it is."""
    import yaml

    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"The {what} {path} cannot be read; check the path, and that it is UTF-8 text.") from error
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise InputError(f"The {what} {path} is not YAML{line}; write one `name: value` a line.") from error
    if not isinstance(value, dict) or not value:
        raise InputError(f"The {what} {path} holds no {holds}; write one `name: value` a line.")
    return value


def _known(name: str, known: Collection[str], path: str | Path) -> str:
    plain = name.replace("-", "_")
    if plain in known:
        return plain
    hint = did_you_mean(plain, sorted(known), otherwise=f"it may have {', '.join(sorted(known))}.")
    raise InputError(f"The config {path} has {name!r}, which is no option of this command; {hint}")


def _option(name: str, value: Any, path: str | Path) -> Any:
    """A value as an option takes it; the option itself says whether it is a number, and which are allowed."""
    if name == SETTINGS:
        if not isinstance(value, dict):
            raise InputError(f"The config {path} has {name!r} as something else than settings; write `field: value`.")
        return [f"{field}={_text(name, part, path)}" for field, part in value.items()]
    return value if isinstance(value, bool) else _text(name, value, path)


def _text(name: str, value: Any, path: str | Path) -> str:
    if isinstance(value, (dict, list)):
        raise InputError(f"The config {path} has more than one value for {name!r}; give one.")
    return str(value)
