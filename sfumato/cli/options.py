"""The options that verbs share, each said once, and what they mean together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from sfumato.errors import InputError

_Number = TypeVar("_Number", int, float)

MOST_IMAGES = 10_000_000
LARGEST_SEED = 2**63 - 1


def count_in_range(value: int) -> int:
    """More images than anyone can hold are a slip of the finger."""
    return _between("count", value, 1, MOST_IMAGES)


def _microbatch(value: int) -> int:
    return _between("microbatch", value, 1, MOST_IMAGES)


def _seed(value: int) -> int:
    return _between("seed", value, 0, LARGEST_SEED)


def epsilon_in_range(value: float | None) -> float | None:
    """Beyond these an epsilon means nothing in practice, and accountants lose their footing."""
    return None if value is None else _between("epsilon", value, 0.001, 1000)


def _delta(value: float) -> float:
    if not 1e-15 <= value < 1:
        raise InputError(f"Expected --delta of at least 1e-15 and below 1, found {value}.")
    return value


def _labels(value: str) -> str:
    """A share so near to 0 or 1 leaves nothing to one of two crossings."""
    try:
        share = float(value.removeprefix("private:")) if value.startswith("private:") else 0.5
    except ValueError:
        return value
    if not 0.001 <= share <= 0.999:
        raise InputError(f"Expected --labels private:FRACTION from 0.001 to 0.999, found '{value}'.")
    return value


def _between(name: str, value: _Number, least: float, most: float) -> _Number:
    if not least <= value <= most:
        raise InputError(f"Expected --{name} from {least} to {most}, found {value}.")
    return value


# What a config file cannot say: it is about this call, or about a run that exists already.
NOT_IN_CONFIG = frozenset({"config", "resume", "json", "quiet", "verbose", "yes", "force", "unsound"})


def _config(context: typer.Context, value: str | None) -> str | None:
    """What a file says becomes the default of each option: what is typed beside it wins, and all is checked alike."""
    if value is not None:
        from sfumato import api

        known = {str(parameter.name) for parameter in context.command.params} - NOT_IN_CONFIG
        context.default_map = api.read_config(value, known)
    return value


@dataclass(frozen=True)
class Loudness:
    """How much a command says: one JSON object, the least, as usual, or more."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise InputError("A command says less or more, not both; leave out --quiet or --verbose.")


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Epsilon = Annotated[
    float | None,
    typer.Option(callback=epsilon_in_range, help="Privacy budget; smaller is more private.", show_default=False),
]
Delta = Annotated[
    float, typer.Option(callback=_delta, help="Chance that the bound fails; well below 1 over the number of records.")
]
Relation = Annotated[str, typer.Option(metavar="add-remove|replace-one", help="Which data sets count as neighbours.")]
Unit = Annotated[
    str | None,
    typer.Option(metavar="record|person", help="Whose presence is hidden; a person where --person is given."),
]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method", metavar="NAME", help="See `sfumato methods`; sfumato where none is named.", show_default=False
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Settings and budget by name; see `sfumato recipes`.", show_default=False),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="A setting of the method; may be repeated.", show_default=False),
]
PrivateCount = Annotated[bool, typer.Option("--private-count", help="Keep the number of records private too.")]
Records = Annotated[
    int | None, typer.Option(metavar="N", help="Number of records to plan for; declared where the count is private.")
]
Size = Annotated[int | None, typer.Option(metavar="PIXELS", help="Crop to a square and resize to this many pixels.")]
Grey = Annotated[bool, typer.Option("--grey", help="Turn colour images grey.")]
Split = Annotated[str, typer.Option(metavar="NAME", help="The part of the data to read.")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that holds the class.")]
Person = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that says who is shown; the unit is then a person.")
]
Labels = Annotated[
    str,
    typer.Option(
        metavar="auto|uniform|FILE|private:F",
        callback=_labels,
        help="How often each class is made: evenly, by weights in a file, or measured with a share F of the budget; "
        "auto measures where data are private.",
    ),
]
Count = Annotated[int, typer.Option(metavar="N", callback=count_in_range, help="Number of synthetic images.")]
Format = Annotated[str, typer.Option(metavar="png|parquet", help="How the images are written.")]
Seed = Annotated[
    int, typer.Option(metavar="N", callback=_seed, help="For public randomness; the noise does not use it.")
]
Microbatch = Annotated[
    int,
    typer.Option(
        metavar="N",
        callback=_microbatch,
        help="Records worked on at once. Fewer need less memory; results change by rounding, the guarantee not at all.",
    ),
]
Ledger = Annotated[str | None, typer.Option(metavar="FILE", help="The privacy ledger, instead of your default one.")]
Out = Annotated[str, typer.Option(metavar="DIR", help="The folder to write; it must be new or empty.")]
Release = Annotated[str, typer.Argument(metavar="RELEASE", help="A release folder.", show_default=False)]


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress; print the path of what was written, and warnings.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="A line for each stage with its time, and every crossing at the end.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the budget is spent, for scripts.")]
Force = Annotated[bool, typer.Option("--force", help="Go on where nothing useful can come of it.")]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        callback=_config,
        is_eager=True,
        help="Options from a YAML file, such as the one written beside each release; what is typed wins.",
        show_default=False,
    ),
]


def settings(given: Sequence[str] | None) -> dict[str, str]:
    """`--set field=value` options as a table.

    >>> settings(["steps=3"])
    {'steps': '3'}
    """
    table: dict[str, str] = {}
    for text in given or ():
        field, equals, value = text.partition("=")
        field = field.strip()
        if not equals or not field:
            raise InputError(f"Expected --set FIELD=VALUE, found --set '{text}'.")
        if field in table:
            raise InputError(f"The setting '{field}' is given twice; keep one --set {field}=VALUE.")
        table[field] = value.strip()
    return table


def grid(given: Sequence[str] | None) -> dict[str, list[str]]:
    """`--grid field=v1,v2` options as a table.

    >>> grid(["steps=3,4"])
    {'steps': ['3', '4']}
    """
    return {field: [value.strip() for value in values.split(",")] for field, values in settings(given).items()}


def check_unit(unit: str | None, person: str | None) -> str:
    """The unit of data that are read: it follows --person, and --unit may only agree."""
    actual = "person" if person else "record"
    if unit is None or unit == actual:
        return actual
    if unit not in ("record", "person"):
        raise InputError(f"Expected --unit as record or person, found '{unit}'.")
    remedy = "leave out --person" if person else "name the column that says who is shown with --person COLUMN"
    raise InputError(f"The unit asked for is a {unit}, but the data are read per {actual}; {remedy}.")


def flag(name: str) -> str:
    """A parameter as it is typed.

    >>> flag("private_count")
    '--private-count'
    """
    return "--" + name.replace("_", "-")


def given(context: typer.Context) -> list[str]:
    """The parameters that the user typed, or wrote into a config file."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, at in sources.items() if at and at.name in ("COMMANDLINE", "DEFAULT_MAP")]
