"""What every method is: public settings, crossings from the public spec, and learning through the barrier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import noise_within
from sfumato.data.labels import LabelPrior, prior_of
from sfumato.engine import label_histogram
from sfumato.methods import explain
from sfumato.methods.settings import refuse_outside, refuse_unknown
from sfumato.privacy.plan import BudgetShare, Crossing, Plan, events_of
from sfumato.types import Site

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.networks.generator import Generator
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run
    from sfumato.types import DataSpec


# Of the survey's figure 2: critic and objective are asked of implicit models alone, the density of explicit ones.
TIERS = {"implicit": ("density", "critic", "objective"), "explicit": ("model", "density")}


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A frozen dataclass of public settings. Data come only through a barrier; nothing is kept between calls.

    A method says what it is (the class variables), what it asks (`crossings`), and how it learns (`learn`). The noise
    is found, the label histogram added and the plan put together here.
    """

    labels: LabelPrior = LabelPrior("uniform")  # text is taken too: "uniform", "private:0.1"

    name: ClassVar[str]
    site: ClassVar[Site]
    family: ClassVar[str]
    good_for: ClassVar[str]  # one sentence: which data and device it is for, by what was measured
    paper: ClassVar[str]  # authors, title, venue
    framework: ClassVar[str]  # Gaussian mechanism, DP-SGD or PATE
    # By `TIERS`: "implicit", "static" or "learnable", "distribution-wise" or "point-wise"; or "explicit", and
    # "tractable" or "approximate".
    axes: ClassVar[tuple[str, ...]]
    public_data: ClassVar[str] = "not used"  # or "optional", "needed", of images; or "a network"
    status: ClassVar[str] = "sound"
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace-one")
    sensitivity: ClassVar[str] = "global"
    deviations: ClassVar[tuple[str, ...]] = ()  # from the paper, each with its reason
    measured: ClassVar[tuple[str, ...]] = ()  # settings that fix what was measured; a refit cannot change them
    audit_side: ClassVar[int] = 16  # pixels of a side of the made-up images that `synthesize` audits on, at most
    stand_ins: ClassVar[tuple[str, ...]] = ()  # settings that name a public network, for which `small` takes another

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            object.__setattr__(self, "labels", prior_of(self.labels))
        refuse_outside(self)
        for sentence in self.contradictions():
            raise ValueError(sentence)

    @abstractmethod
    def crossings(self, spec: DataSpec, z: float) -> Mapping[str, Crossing]:
        """Every crossing at noise scale `z`, which all of their noise is proportional to; from public facts alone."""

    @abstractmethod
    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        """Train a generator; whatever depends on private data comes out of `barrier.release`."""

    def contradictions(self) -> Iterable[str]:
        """Sentences about settings that do not go together; limits of a single one are declared with its field."""
        return ()

    def shares(self, spec: DataSpec) -> Mapping[str, BudgetShare]:
        """Crossings that take a fixed share of the budget before the noise of the others is found."""
        return {}

    def proportions(self, spec: DataSpec, budget: Budget) -> Mapping[str, float]:
        """Factors on the noise of single crossings; 1 where nothing is said."""
        return {}

    def facts(self, plan: Plan) -> Mapping[str, Any]:
        """More public numbers for the reader of a plan and for `learn`."""
        return {}

    def claim(self, plan: Plan) -> Mapping[str, Any]:
        """What the paper's own formula says of this plan, for comparison alone."""
        return {}

    def warnings(self, plan: Plan) -> Iterable[str]:
        """What a custodian should know before anything is spent."""
        return ()

    def remarks(self, plan: Plan) -> Iterable[explain.Section]:
        """What is to be said of a plan of this method alone, such as what its paper proves beside the guarantee."""
        return ()

    def explain(self, plan: Plan) -> list[explain.Section]:
        """A plan in sentences: what is true of every plan, and the remarks of this method."""
        return [*explain.sections(plan), *self.remarks(plan)]

    def label_facts(self) -> Mapping[str, Any]:
        """How the labels of what is released are chosen."""
        return label_histogram.describe(self.labels)

    def stated_deviations(self) -> tuple[str, ...]:
        """Deviations from the paper at these settings."""
        return self.deviations

    def public_used(self, public: PublicImages | None) -> dict[str, Any] | None:
        """What the statement says of public images and networks that were used; None where there were none."""
        return None if public is None else {"provenance": public.provenance, "records": len(public.images)}

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        """Every crossing, with the least noise that `budget` allows, from public facts alone."""
        rest = 1 - (label_histogram.fraction(self.labels) or 0.0)
        first = {name: replace(part, share=part.share * rest) for name, part in self.shares(spec).items()}
        first |= label_histogram.share(self.labels)
        taken = {name: part.crossing(budget) for name, part in first.items()}
        plan = Plan(
            self.name,
            self.settings(),
            spec,
            budget,
            {**self.calibrated(spec, budget, taken), **taken},
            labels=self.label_facts(),
            deviations=self.stated_deviations(),
        )
        plan = replace(plan, facts=self.facts(plan))
        return replace(plan, paper=self.claim(plan), warnings=(*self.warnings(plan), *plan.large_delta()))

    def calibrated(self, spec: DataSpec, budget: Budget, taken: Mapping[str, Crossing]) -> Mapping[str, Crossing]:
        """The crossings with the least noise that is within `budget` beside those that are `taken`."""
        factors = self.proportions(spec, budget)

        def at(z: float) -> dict[str, Crossing]:
            return {name: c.scaled(factors.get(name, 1.0)) for name, c in self.crossings(spec, z).items()}

        def events(z: float) -> list[Any]:
            return events_of({**taken, **at(z)}, budget.relation)

        return at(noise_within(events, budget.epsilon, budget.delta))

    def fitted_to(self, spec: DataSpec, budget: Budget, device: str) -> Self:
        """The same method with the settings that nobody chose fitted to public facts; most methods have none such."""
        return self

    def small(self) -> Self:
        """The same method at a size that an audit runs in seconds: sizes may shrink, and nothing else may change."""
        return self

    def at_most(self, **sizes: float) -> Self:
        """The same method with these sizes shrunk; what is smaller already stays as it is."""
        return replace(self, **{name: min(getattr(self, name), most) for name, most in sizes.items()})

    @classmethod
    def in_words(cls) -> str:
        """Its axes, each with its tier.

        >>> from sfumato import DPNF
        >>> DPNF.in_words()
        'explicit model, tractable density'
        """
        return ", ".join(f"{axis} {tier}" for axis, tier in zip(cls.axes, TIERS[cls.axes[0]], strict=True))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All that this method was made with, by name, as scikit-learn asks for it; `clone` makes an equal one."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """A method with these settings changed. This one stays as it is: what a plan was made for never changes.

        >>> from sfumato import DPMERF
        >>> method = DPMERF()
        >>> method.set_params(steps=3).steps, method.steps == DPMERF().steps
        (3, True)
        """
        refuse_unknown(params, self.get_params())
        return replace(self, **params)

    def settings(self) -> dict[str, Any]:
        """The public settings that define this method."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "labels"}
