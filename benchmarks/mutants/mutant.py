"""What a mutant is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

KINDS = (
    "noise",
    "clipping",
    "sums",
    "sampling",
    "place",
    "partition",
    "teachers",
    "state",
    "flow",
    "leaves",
    "facade",
    "labels",
    "person",
    "relation",
    "sparse",
    "paths",
    "tune",
    "classify",
    "publish",
)
PACKAGE = Path(__file__).resolve().parents[2] / "sfumato"


@dataclass(frozen=True)
class Case:
    """What is audited: a method (or the "classifier") with settings, on made-up records of some description.

    `verb` is a command around it that has an audit of its own: see `look.VERBS`.
    """

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    verb: str = ""
    relation: str = "add-remove"
    person: bool = False
    labels: str = "uniform"
    records: int = 60
    shape: tuple[int, int, int] = (1, 8, 8)
    classes: int = 3
    count_public: bool = True
    device: str = "cpu"
    epsilon: float = 4.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"settings": dict(self.settings)}

    def __str__(self) -> str:
        usual = Case(self.method).to_json()
        more = {k: v for k, v in self.to_json().items() if k not in ("method", "settings") and v != usual[k]}
        return " ".join([self.method, *(f"{k}={v}" for k, v in {**self.settings, **more}.items())])


@dataclass(frozen=True)
class Edit:
    """One place of the package: `old` occurs in it exactly once, and becomes `new`."""

    file: str  # below sfumato/
    old: str
    new: str

    def problem(self, package: Path = PACKAGE) -> str | None:
        """Why it cannot be made, if so."""
        path = package / self.file
        if not path.is_file():
            return f"{self.file} is not there"
        found = path.read_text().count(self.old)
        return None if found == 1 else f"its text occurs {found} times in {self.file}"


@dataclass(frozen=True)
class Mutant:
    """A planted bug.

    `what` says what it breaks and how badly. `twin` is a harmless change of the same place, which must pass; without
    one the unchanged package is the twin.
    """

    id: str
    kind: str
    what: str
    cases: tuple[Case, ...]
    edits: tuple[Edit, ...]
    twin: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Expected kind in {KINDS}, found {self.kind!r}.")

    @property
    def refusal(self) -> bool:
        """Whether an attribute that is missing or read-only is a way to catch it: that is what a facade is for.

        Elsewhere an error of that kind says that the mutant itself is broken.
        """
        return self.kind == "facade"

    def problems(self, package: Path = PACKAGE) -> list[str]:
        """Why it, or its twin, cannot be planted in the present source."""
        found = [edit.problem(package) for edit in (*self.edits, *self.twin)]
        return [problem for problem in found if problem]


def planted(edits: tuple[Edit, ...], package: Path = PACKAGE) -> dict[str, str]:
    """The new text of each file that is changed."""
    texts: dict[str, str] = {}
    for edit in edits:
        before = texts.get(edit.file) or (package / edit.file).read_text()
        if before.count(edit.old) != 1:
            raise ValueError(f"Expected the text of an edit once in {edit.file}, found {before.count(edit.old)} times.")
        texts[edit.file] = before.replace(edit.old, edit.new)
    return texts


def lines_of(edits: tuple[Edit, ...], package: Path = PACKAGE) -> dict[str, list[int]]:
    """Numbers of the lines that are new, by file."""
    found: dict[str, list[int]] = {}
    for file, text in planted(edits, package).items():
        before = set((package / file).read_text().splitlines())
        found[file] = [n for n, line in enumerate(text.splitlines(), 1) if line not in before]
    return found
