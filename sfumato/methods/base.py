"""What every method is: public settings, a plan from the public spec, and learning through the barrier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sfumato.accounting.budget import Budget
from sfumato.data.labels import LabelPrior

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.networks.generator import Generator
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.plan import Plan
    from sfumato.release import Release
    from sfumato.run.run import Run
    from sfumato.types import DataSpec


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A frozen dataclass of public settings. Data come only through a barrier; nothing is kept between calls.

    `epsilon` and `delta` are sugar for `fit`; everything else takes a Budget.
    """

    labels: LabelPrior = LabelPrior("uniform")
    epsilon: float | None = None
    delta: float = 1e-5

    name: ClassVar[str]
    measured: ClassVar[tuple[str, ...]] = ()  # settings that fix what was measured; a refit cannot change them
    audit_side: ClassVar[int] = 16  # pixels of a side of the made-up images that `synthesize` audits on, at most
    stand_ins: ClassVar[tuple[str, ...]] = ()  # settings that name a public network, for which `small` takes another

    @abstractmethod
    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        """Every crossing, calibrated to `budget`, from public facts alone."""

    @abstractmethod
    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        """Train a generator; whatever depends on private data comes out of `barrier.release`."""

    def small(self) -> Method:
        """The same method at a size that an audit runs in seconds: sizes may shrink, and nothing else may change."""
        return self

    def at_most(self, **sizes: float) -> Self:
        """The same method with these sizes shrunk; what is smaller already stays as it is."""
        return replace(self, **{name: min(getattr(self, name), most) for name, most in sizes.items()})

    def settings(self) -> dict[str, Any]:
        """The public settings that define this method, without the sugar."""
        shared = {f.name for f in fields(Method)}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in shared}

    def fit(self, data: PrivateImages | Any, **options: Any) -> Release:
        """Synthesize under this method's own epsilon and delta; `data` is anything `sfumato.load` takes."""
        from sfumato.api import synthesize

        if self.epsilon is None:
            raise ValueError(f"Expected {type(self).__name__}(epsilon=...) before fit.")
        return synthesize(self, data, Budget(self.epsilon, self.delta), **options)
