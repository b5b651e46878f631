"""The plan of DPAF: how often each part asks, and how the budget is split over them.

With `equal` all parts have the same noise over sensitivity. With a split each part gets the noise with which it would
spend its epsilon alone; then all are scaled together until the whole meets the budget, which is less noise than the
sum of their epsilons would ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.budget_split import multipliers, parse_split
from sfumato.accounting.claims import dpaf as by_paper
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.errors import InputError
from sfumato.methods.gan.dpaf.aggregation import bound_of
from sfumato.methods.gan.dpaf.discriminator import ACTIVATIONS
from sfumato.methods.gan.dpaf.first_layers import WAYS
from sfumato.methods.gan.dpaf.forward_phase import AGGREGATE, CONV1, CONV2, clip_to
from sfumato.methods.gan.dpaf.layout import Layout
from sfumato.privacy.plan import BudgetShare, Crossing, Plan, crossing, within
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.types import DataSpec

if TYPE_CHECKING:
    from sfumato.methods.gan.dpaf.dpaf import DPAF

LOUD = 8.0  # standard deviations of the noise in a normalised feature of the mean, from which on a plan warns
LIMITS = (
    ("epochs conv1_epochs", 1e-6, 1e6),
    ("batch fakes", 2, 10_000_000),
    ("matching", 0, 1e6),
    ("mu critic_steps moves replay latent width critic_width features hidden", 1, 1_000_000),
    ("conv1_steps warm", 0, 10_000_000),
    ("smooth", 0, 100),
    ("clip", 1e-6, 1e6),
    ("keep", 1e-6, 1),
    ("learning_rate critic_learning_rate", 1e-12, 1),
    ("ema_decay", 0, 0.999999),
)


def check(method: DPAF) -> None:
    """Refuse settings that make no sense, naming the one that is wrong."""
    for name, allowed in {"conv1": WAYS, "activation": tuple(ACTIVATIONS)}.items():
        if getattr(method, name) not in allowed:
            raise ValueError(f"Expected {name}={f' or {name}='.join(allowed)}, found {name}={getattr(method, name)}.")
    for names, low, high in LIMITS:
        for name in names.split():
            if not low <= getattr(method, name) <= high:
                raise ValueError(f"Expected {name} from {low:g} to {high:g}, found {name}={getattr(method, name)}.")
    if method.layout and not Layout.parse(method.layout).conv1 and method.conv1 != "random":
        raise ValueError(f"Expected conv1=random for a layout without conv1, found conv1={method.conv1}.")
    if method.warm_generator and not method.warm:
        raise ValueError("Expected warm above 0 for warm_generator, found warm=0.")


@dataclass(frozen=True)
class Sizes:
    """The public numbers of a run on one set."""

    layout: Layout
    features: tuple[int, int, int]  # m, h, w
    batch: int
    rate: float
    steps: int  # of sums
    second: DPSGDConfig  # of conv2*
    first: DPSGDConfig | None  # of conv1, in the private classifier or in the game

    @classmethod
    def of(cls, method: DPAF, spec: DataSpec) -> Sizes:
        """A set smaller than four batches gives a quarter of its records to each sum."""
        try:
            layout = Layout.parse(method.layout) if method.layout else Layout.fit(spec.shape[1:])
            features = layout.features(spec.shape, method.features)
        except ValueError as error:
            raise InputError(str(error)) from error
        batch = min(method.batch, max(2, spec.records // 4))
        wide = min(method.mu * batch, spec.records)
        steps = max(1, int(method.epochs * spec.records / batch))
        if steps < method.mu:
            raise InputError(f"Expected epochs enough for mu={method.mu} steps, found {steps} with batch={batch}.")
        if method.conv1 == "private" and not spec.conditional:
            raise InputError("Expected two classes or more for conv1=private, found one; take conv1=random.")
        second = DPSGDConfig(steps // method.mu, wide, clip_to(method.clip, method.keep, method.signs))
        classifier = DPSGDConfig(max(1, int(method.conv1_epochs * spec.records / wide)), wide, clip_to(1.0))
        first = {"private": classifier, "game": second}.get(method.conv1)
        return cls(layout, features, batch, batch / spec.records, steps, second, first)

    @property
    def wide(self) -> int:
        """Records expected in a gradient of conv2*."""
        return self.second.batch

    def makers(self, spec: DataSpec) -> dict[str, Callable[[float], Crossing]]:
        """The crossings by their noise over sensitivity, in the order of the paper's splits."""
        sampler = Poisson(self.rate) if self.rate < 1 else FullBatch()
        first = {CONV1: lambda z: self.first.crossing(spec, z)} if self.first else {}
        return {
            **first,
            CONV2: lambda z: self.second.crossing(spec, z),
            AGGREGATE: lambda z: crossing(bound_of(self.features), z, sampler, self.steps),
        }


def plan(method: DPAF, sizes: Sizes, spec: DataSpec, budget: Budget, deviations: tuple[str, ...]) -> Plan:
    """All parts with the least noise that the budget allows for the split."""
    makers = sizes.makers(spec)
    base = _proportions(method, makers, budget)
    others = {}
    if method.labels.kind == "private":
        others = {
            label_histogram.CROSSING: BudgetShare(label_histogram.VOTE, method.labels.fraction or 0).crossing(budget)
        }

    def at(scale: float) -> Plan:
        crossings = {**others, **{name: make(scale * base[name]) for name, make in makers.items()}}
        return Plan(
            method.name,
            method.settings(),
            spec,
            budget,
            crossings,
            deviations=deviations,
            labels=label_histogram.describe(method.labels),
        )

    made = within(budget, at)
    found = {name: made.crossings[name].mechanism.multiplier for name in makers}
    claimed = [(c.times, c.sampler.rate, found[name]) for name in makers for c in [made.crossings[name]]]
    facts = {
        "steps": sizes.steps,
        "layout": str(sizes.layout),
        "sum_bound": bound_of(sizes.features).norm,
        "multipliers": found,
    }
    same = {"multiplier": found[AGGREGATE]} if len(set(found.values())) == 1 else {}
    return replace(
        made,
        facts=facts | same,
        paper=by_paper(claimed, budget.delta),
        warnings=(*made.warnings, *_warnings(sizes, found[AGGREGATE])),
    )


def _proportions(method: DPAF, makers: dict[str, Callable[[float], Crossing]], budget: Budget) -> dict[str, float]:
    """Noise of the parts in proportion to each other."""
    try:
        epsilons = parse_split(method.split, budget.epsilon, len(makers))
    except ValueError as error:
        raise InputError(
            f"{error} With conv1=private or conv1=game the parts are conv1, conv2*, DPAGG, else the last two."
        ) from error
    if epsilons is None:
        return dict.fromkeys(makers, 1.0)
    events = {name: make(1.0).event(Relation.ADD_REMOVE) for name, make in makers.items()}
    return multipliers(events, epsilons, budget.delta)


def _warnings(sizes: Sizes, multiplier: float) -> tuple[str, ...]:
    noise = multiplier * bound_of(sizes.features).norm / sizes.batch
    if noise < LOUD:
        return ()
    return (
        f"The noise in a mean feature is {noise:.3g} times what one image has; take a larger batch, fewer "
        "features, fewer epochs, more data or a larger epsilon.",
    )
