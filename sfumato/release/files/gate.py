"""The export gate: the exact list of what a release folder may hold, and the one way to write into it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.release.files import schema
from sfumato.release.files.content import json_problem, parquet_problem, png_problem, tensor_problem, text_problem
from sfumato.release.files.hashes import HASHES, SIGNATURE
from sfumato.release.files.outside import walk

DATA_INDEPENDENT = "data-independent"
_WHY = re.compile(r"data-independent|post-processing of crossings? \S.*")

# The statement's twelve points, in their order; the keys of privacy.json.
POINTS = (
    "guarantee",
    "coverage",
    "mechanisms",
    "accountant",
    "declared_public",
    "tuning",
    "other_releases",
    "randomness",
    "deviations",
    "audit",
    "reproducibility",
    "plain_words",
)


def certified(why: object) -> bool:
    """Whether a certificate is one of the two reasons for which a value is public."""
    return isinstance(why, str) and _WHY.fullmatch(why) is not None


@dataclass(frozen=True, eq=False)
class Public:
    """A value with the reason why it may be published; without one the gate takes no tensor.

    >>> Public(3, "data-independent").why
    'data-independent'
    >>> Public.after(3, "embedding", "labels").why
    'post-processing of crossings embedding, labels'
    """

    value: Any
    why: str

    def __post_init__(self) -> None:
        if not certified(self.why):
            raise ValueError(
                f"Expected why='data-independent' or why='post-processing of crossing NAME', found why={self.why!r}."
            )

    @classmethod
    def after(cls, value: Any, *crossings: str) -> Public:
        """Computed from the named releases and public values alone; from nothing released, data-independent."""
        if not crossings:
            return cls(value, DATA_INDEPENDENT)
        plural = "s" if len(crossings) > 1 else ""
        return cls(value, f"post-processing of crossing{plural} {', '.join(crossings)}")


@dataclass(frozen=True)
class Rule:
    """One line of the list: a pattern of names, and what is wrong with the bytes of such a file, if anything."""

    name: re.Pattern[str]
    problem: Callable[[bytes], str | None]


def rule(pattern: str, problem: Callable[[bytes], str | None]) -> Rule:
    """A line for names of this pattern."""
    return Rule(re.compile(pattern), problem)


def json_rule(name: str, listed: schema.Schema) -> Rule:
    """A line for a JSON file that may hold what a schema lists, at every depth."""
    return rule(re.escape(name), lambda data: json_problem(data, listed))


def tensor_rule(name: str) -> Rule:
    """A line for a safetensors file."""
    return rule(re.escape(name), lambda data: tensor_problem(data, certified))


# A class folder: letters, digits, space, dot, dash, underscore; not hidden, no dot or space at the end.
CLASS_FOLDER = r"[^\W_](?:[\w .-]{0,58}[\w-])?"

RULES: tuple[Rule, ...] = (
    rule(rf"images/{CLASS_FOLDER}/\d{{6,9}}\.png", png_problem),
    rule(r"data\.parquet", parquet_problem),
    json_rule("generator/config.json", schema.GENERATOR),
    tensor_rule("generator/model.safetensors"),
    tensor_rule("measurement.safetensors"),
    rule(r"strip\.png", png_problem),
    json_rule("strip.json", schema.STRIP),
    json_rule("privacy.json", schema.STATEMENT),
    rule(r"PRIVACY\.md", text_problem),
    rule(r"README\.md", text_problem),
    rule(r"report\.html", text_problem),
    rule(r"deployment\.yaml", text_problem),
    json_rule(HASHES, schema.HASH_LIST),
    json_rule(SIGNATURE, schema.SIGNED),
)
FOLDERS = re.compile(rf"generator|images(?:/{CLASS_FOLDER})?")

# What no release lacks, besides its images in one of two forms.
ALWAYS = (
    "PRIVACY.md",
    "README.md",
    "deployment.yaml",
    "generator/config.json",
    "generator/model.safetensors",
    HASHES,
    "privacy.json",
    "report.html",
)


def problem(name: str, data: bytes, rules: tuple[Rule, ...] = RULES) -> str | None:
    """Why a file of this name and content may not be in a release folder, or None."""
    line = next((line for line in rules if line.name.fullmatch(name)), None)
    return "is not on the list of what a release may contain" if line is None else line.problem(data)


@dataclass(frozen=True)
class Gate:
    """The only writer of a release folder. A refusal is a fault of the program, never of the user."""

    folder: Path
    rules: tuple[Rule, ...] = RULES

    def write(self, name: str, data: bytes | str) -> None:
        """Write one listed file; tensors go through `tensors`, which asks for their certificates."""
        if not isinstance(data, bytes | str):
            raise TypeError(f"Expected {name} as bytes or text, found {type(data).__name__}.")
        if name.endswith(".safetensors"):
            raise TypeError(f"Expected the tensors of {name} through Gate.tensors, each wrapped in Public.")
        self._put(name, data.encode() if isinstance(data, str) else data)

    def json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write one listed JSON file with nothing in it but its listed keys and finite numbers."""
        self.write(name, json_text(_finite(name, value)))

    def tensors(self, name: str, tensors: Mapping[str, Public]) -> None:
        """Write one listed safetensors file; the certificates travel in its header."""
        for key, tensor in tensors.items():
            if not isinstance(tensor, Public):
                raise TypeError(f"Expected {key} of {name} wrapped in Public, found a bare {type(tensor).__name__}.")
        import torch
        from safetensors.torch import save

        # Clones, because safetensors refuses tensors that share memory.
        plain = {k: torch.as_tensor(t.value).detach().cpu().contiguous().clone() for k, t in tensors.items()}
        self._put(name, save(plain, {key: tensor.why for key, tensor in tensors.items()}))

    def _put(self, name: str, data: bytes) -> None:
        refusal = problem(name, data, self.rules)
        if refusal is not None:
            raise ValueError(f"The export gate refused {name}: it {refusal}.")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)


def json_text(value: Mapping[str, Any]) -> str:
    """JSON as the gate writes it."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(name: str, value: Any) -> Any:
    """The same value, or a ValueError naming the file where a number in it is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"The export gate refused {name}: it has a number that is not finite.")
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for part in parts:
        _finite(name, part)
    return value


def check(folder: str | Path, rules: tuple[Rule, ...] = RULES) -> list[str]:
    """Everything in a folder that a release may not contain, one sentence each; empty when all is well."""
    problems = []
    folder = Path(folder)
    for path in walk(folder):
        name = path.relative_to(folder).as_posix()
        what = _entry_problem(path, name, rules)
        problems += [f"{name} {what}."] if what else []
    return sorted(problems)


def _entry_problem(path: Path, name: str, rules: tuple[Rule, ...]) -> str | None:
    if path.is_symlink():
        return "is a link; a release holds plain files alone"
    if path.is_dir():
        return None if FOLDERS.fullmatch(name) and any(path.iterdir()) else "is a folder that a release does not have"
    return problem(name, path.read_bytes(), rules) if path.is_file() else "is not a plain file"


def missing(folder: str | Path) -> list[str]:
    """What a whole release has and a folder lacks, one sentence each."""
    folder = Path(folder)
    problems = [f"{name} is missing." for name in ALWAYS if not (folder / name).is_file()]
    forms = [name for name in ("images", "data.parquet") if (folder / name).exists()]
    if len(forms) != 1:
        problems.append("Both images/ and data.parquet are there." if forms else "The images are missing.")
    return problems
