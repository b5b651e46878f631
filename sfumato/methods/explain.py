"""A plan in sentences: what crosses the barrier, what it costs alone and together, what is free, what the paper says.

All of it follows from the plan, which is public; nothing here has seen a record. A method adds sections of its own by
`Method.remarks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.accounting import accountant
from sfumato.accounting.claims import LABEL
from sfumato.accounting.events import Event
from sfumato.privacy.bounds import AnyBound, BatchBound, Bound
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.plan import Crossing, Plan
from sfumato.privacy.samplers import CyclicPoisson

NOISES = {
    "gaussian": "Gaussian noise of standard deviation",
    "discrete-gaussian": "Whole-number (discrete) Gaussian noise of sigma",
    "discrete-laplace": "Whole-number (discrete) Laplace noise of scale",
}
LABELS = {
    "uniform": "Labels are drawn evenly, which costs nothing.",
    "declared": "Labels are drawn from shares that were declared public, which costs nothing.",
    "private": "The shares of the labels are a crossing of their own, and paid for.",
}


@dataclass(frozen=True)
class Section:
    """A heading, sentences under it and, where wanted, a table of numbers."""

    title: str
    sentences: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For programs; a row of the table goes by its columns."""
        table = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "sentences": list(self.sentences), "table": table}


def sections(plan: Plan) -> list[Section]:
    """What is to be said of every plan."""
    crossings = [_crossing(name, crossing, plan) for name, crossing in plan.crossings.items()]
    return [*crossings, _together(plan), _free(plan), _paper(plan)]


def at_most(value: float) -> str:
    """An epsilon in four digits, never shown smaller than it is.

    >>> at_most(0.74163), at_most(1301.0), at_most(math.inf)
    ('0.7417', '1301', 'infinity')
    """
    if not math.isfinite(value):
        return "infinity"
    unit = 10.0 ** (math.floor(math.log10(max(value, 1e-300))) - 3)
    return f"{math.ceil(value / unit - 1e-6) * unit:.4g}"


def cost(event: Event, delta: float) -> float:
    """Epsilon of one event alone."""
    return accountant.epsilon([event], delta)


def _crossing(name: str, crossing: Crossing, plan: Plan) -> Section:
    budget = plan.budget
    event = crossing.event(budget.relation)
    once = at_most(cost(crossing.event(budget.relation, 1), budget.delta))
    every = at_most(cost(event, budget.delta))
    times = "once" if crossing.times == 1 else f"{crossing.times:,} times"
    alone = "" if crossing.times == 1 else f"one use alone costs epsilon {once}, and "
    return Section(
        f"Crossing '{name}'",
        (
            _released(crossing, str(budget.unit)),
            _sensitivity(crossing, event, str(budget.unit)),
            f"{NOISES[event.mechanism]} {event.sigma:.4g} is added to every number: "
            f"{event.sigma / event.sensitivity:.4g} times what one {budget.unit} can change.",
            _sampling(crossing, str(budget.unit)),
            f"It is used {times}: {alone}all uses without the rest of the plan cost epsilon {every}, at delta "
            f"{budget.delta:g}.",
        ),
    )


def _released(crossing: Crossing, unit: str) -> str:
    if isinstance(crossing.bound, BatchBound):
        return (
            f"Released: one value made of a whole sample, shortened to a norm of {crossing.bound.norm:.4g}, with noise."
        )
    who = "part of the data, held behind the barrier with a state of its own," if crossing.held else unit
    return f"Released: a sum with noise, to which each {who} adds {_term(crossing.bound)}. Single terms never leave."


def _term(bound: AnyBound) -> str:
    if isinstance(bound, Bound | BatchBound):
        return f"a term shortened to a norm of at most {bound.norm:.4g}"
    some = "one of them not zero" if bound.most == 1 else f"{bound.most} of them not zero"
    return f"a ballot of whole numbers from {bound.low} to {bound.high}, at most {some}"


def _sensitivity(crossing: Crossing, event: Event, unit: str) -> str:
    why = {
        True: f"a {unit} lies in one part and may change that part's term in any way, under either relation",
        False: f"under {event.relation} a {unit} "
        + ("appears or is blanked out" if event.relation == "add-remove" else "is replaced by another"),
    }[crossing.held]
    norm = "L1" if event.mechanism == "discrete-laplace" else "L2"
    if isinstance(crossing.mechanism, BandedGaussian):
        stretch = crossing.mechanism.column_norm(crossing.times)
        return (
            f"Sensitivity: one {unit} moves the sum by at most {event.sensitivity / stretch:.4g} ({norm} norm), since "
            f"{why}; and later answers with it, whose noise takes back a part of this one's: {stretch:.4g} times that "
            "in all, the largest column norm of the factor of the noise."
        )
    return f"Sensitivity: one {unit} moves the sum by at most {event.sensitivity:.4g} ({norm} norm), since {why}."


def _sampling(crossing: Crossing, unit: str) -> str:
    if crossing.sampler.rate == 1:
        return "Sampling: none. Everyone takes part in every use, and no chance is claimed."
    who = "part" if crossing.held else unit
    if isinstance(crossing.sampler, CyclicPoisson):
        return (
            f"Sampling: each {unit} has one of {crossing.sampler.cycle} classes for good, by a secret hash. Classes "
            f"take turns, and each {unit} of the one whose turn it is takes part with probability "
            f"{crossing.sampler.rate:.4g}, by a secret coin; the accountant charges for one coin a cycle."
        )
    return (
        f"Sampling: each {who} takes part with probability {crossing.sampler.rate:.4g}, by a secret coin that is "
        "tossed anew for each use; the accountant charges for that and no more."
    )


def _together(plan: Plan) -> Section:
    profile = plan.profile()
    given = f"epsilon {at_most(profile.epsilon(plan.budget.delta))} at delta {plan.budget.delta:g}"
    how = (
        f"Gaussian noise composes without loss: the squares of sensitivity over sigma add up to mu^2, mu = "
        f"{profile.mu:.4g}, and the exact formula gives {given}."
        if profile.mu is not None
        else f"All uses are composed by their privacy losses ({profile.name}), rounded against us: {given}."
    )
    sentences = [how, *_shares(plan)]
    second = accountant.epsilon_by_renyi(plan.events(), plan.budget.delta)
    if second is not None:
        sentences.append(f"A second accountant, Renyi DP, which is looser, says {at_most(second)}.")
    sentences.append("The answers may be chosen one after the other, each after seeing all before it: that is counted.")
    return Section("Together", tuple(sentences))


def _shares(plan: Plan) -> Iterator[str]:
    """What several crossings cost one by one, against what they cost together."""
    if len(plan.crossings) < 2:
        return
    alone = {name: cost(c.event(plan.budget.relation), plan.budget.delta) for name, c in plan.crossings.items()}
    listed = ", ".join(f"{name} {at_most(value)}" for name, value in alone.items())
    yield f"One by one: {listed}. Added up they would be {at_most(math.fsum(alone.values()))}; together they cost less."


def _free(plan: Plan) -> Section:
    sentences = [
        "Whatever is computed from the noisy answers alone is post-processing: the training of what is released, "
        "every image drawn from it, every choice made by looking at it. It costs nothing, however often it is done.",
        "Not free: looking at the data again, also for a score, for a choice of settings, or for how often to stop.",
    ]
    return Section("What is free", (*sentences, *filter(None, [LABELS.get(str(plan.labels.get("kind")))])))


def _paper(plan: Plan) -> Section:
    paper: Mapping[str, Any] = plan.paper
    ours = at_most(plan.epsilon())
    why = str(paper.get("note", "")).removeprefix(f"{LABEL}: ")
    claimed = paper.get("epsilon")
    sentences = ["The paper gives no formula of its own for this plan."]
    if isinstance(claimed, float | int):
        sentences = [
            f"For this very run the paper's own formula gives epsilon {at_most(float(claimed))}, ours {ours}. The "
            f"first is {LABEL}.",
            f"Why they differ: {why}.",
        ]
    return Section("The paper's claim", (*sentences, *(f"Deviation: {said}" for said in plan.deviations)))
