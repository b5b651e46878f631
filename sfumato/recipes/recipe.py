"""What a recipe is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.methods import Method
    from sfumato.types import DataSpec

KINDS = ("paper", "code", "ours")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A method with its settings and a budget, the data they were made for, and where they come from.

    `kind` says whose settings they are: the paper's, its official code's, or ours. `published` is the accuracy that the
    paper reports, where there is one; `data`, `records`, `shape` and `classes` describe a set and bind nobody.
    """

    name: str
    method: str
    settings: Mapping[str, Any]
    epsilon: float
    delta: float = 1e-5
    data: str
    records: int
    shape: tuple[int, int, int]
    classes: int
    kind: str
    paper: str  # table or section
    note: str
    published: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Expected kind={' or kind='.join(KINDS)}, found kind={self.kind}.")

    def make(self, **changes: Any) -> Method:
        """The method, with changes to its settings."""
        from sfumato.methods import find

        return find(self.method)(**{**self.settings, **changes})

    def budget(self) -> Budget:
        """The budget."""
        from sfumato.accounting.budget import Budget

        return Budget(self.epsilon, self.delta)

    def spec(self) -> DataSpec:
        """A public description of the data that it was made for."""
        from sfumato.types import DataSpec

        return DataSpec(self.data, self.records, self.shape, tuple(str(i) for i in range(self.classes)))

    def texts(self) -> dict[str, str]:
        """The settings as `--set` would have them."""
        return {field: str(value) for field, value in self.settings.items()}

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self) | {"settings": dict(self.settings), "shape": list(self.shape)}
