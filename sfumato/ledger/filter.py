"""Whether a further run fits a custodian's total: a filter that holds for runs chosen after seeing earlier ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from sfumato.accounting.budget import Budget
from sfumato.accounting.gaussian import epsilon_of, mu_of

# Share of delta set aside for the slack of runs that are not purely Gaussian.
SLACK_SHARE = 0.1
# A calibrated run meets its budget up to the last digits of a root search.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Past:
    """One earlier run, under the account's present relation.

    `mu` is infinite where that relation is not served; `epsilon` is the run's own epsilon at the
    account's present delta, where it is known.
    """

    mu: float
    slack: float
    epsilon: float | None = None


@dataclass(frozen=True)
class Limits:
    """What all runs together may reach, for the filter."""

    mu: float
    slack: float


def limits(total: Budget) -> Limits:
    """The filter's two thresholds.

    Runs may be chosen after seeing the releases of earlier ones, so the thresholds come from the total alone:
    a threshold that moved with what was asked (for one, giving the slack's share back while every run so far is
    Gaussian) would be a stopping rule picked by the releases, which the filter (Smith and Thakurta 2022) does
    not cover. With mu and slack below them, delta(epsilon) <= slack + delta_gauss(epsilon; mu) <= delta.
    """
    slack = SLACK_SHARE * total.delta
    # The last factor pays for rounding in the root search and in the sums of squares.
    return Limits(mu=mu_of(total.epsilon, total.delta - slack) * (1 - 1e-12), slack=slack)


def composed(past: Sequence[Past]) -> tuple[float, float]:
    """(mu, slack) of all runs together: squares of mu add, slacks add."""
    return math.hypot(*(run.mu for run in past)), math.fsum(run.slack for run in past)


def spent(total: Budget, past: Sequence[Past]) -> float:
    """Epsilon at the total's delta of all runs together; infinite where no bound is known."""
    if not past:
        return 0.0
    if len(past) == 1 and past[0].epsilon is not None:
        return past[0].epsilon
    mu, slack = composed(past)
    if math.isinf(mu) or slack >= total.delta:
        return math.inf
    return epsilon_of(total.delta - slack, mu)


def remaining(total: Budget, past: Sequence[Past]) -> float:
    """Largest epsilon, at the total's delta, that one more Gaussian run could take."""
    if not past:
        return total.epsilon
    limit, (mu, slack) = limits(total), composed(past)
    if slack > limit.slack or not mu < limit.mu:
        return 0.0
    room = math.sqrt((limit.mu - mu) * (limit.mu + mu))
    # Rounded down, so that a run calibrated to exactly this epsilon is admitted.
    return epsilon_of(total.delta, room) * (1 - ROUNDING)


def admits(total: Budget, past: Sequence[Past], run: Past) -> bool:
    """Whether `run` may follow the earlier ones; NaN is never admitted.

    The first run is judged by its own exact epsilon. That choice of rule is made before anything was released, so
    it does not disturb the filter: a first run between the filter's thresholds and the total leaves nothing for
    later ones, which the filter then refuses whatever they are.
    """
    if not past:
        return run.epsilon is not None and 0 <= run.epsilon <= total.epsilon * (1 + ROUNDING)
    limit, (mu, slack) = limits(total), composed([*past, run])
    return mu <= limit.mu and slack <= limit.slack


def refusal(name: str, total: Budget, past: Sequence[Past], run: Past) -> str:
    """The sentence for a run that does not fit."""
    asks = "a cost unknown at this delta" if run.epsilon is None else f"epsilon {_digits(run.epsilon, up=True)}"
    so_far = spent(total, past)
    used = "more than can be stated" if math.isinf(so_far) else _digits(so_far, up=True)
    sentence = (
        f"The account '{name}' has a total of epsilon {total.epsilon:g} at delta {total.delta:g} "
        f"({total.relation}, per {total.unit}), of which {used} is spent, and this run asks for {asks}: "
        f"at most epsilon {_digits(remaining(total, past), up=False)} remains for one more Gaussian run"
    )
    if past and composed([*past, run])[1] > limits(total).slack:
        sentence += f", and the runs' slack may not pass {limits(total).slack:g}"
    return sentence + "; ask for less, or let the custodian raise the total."


def _digits(value: float, *, up: bool) -> str:
    """Four significant digits, rounded against the user."""
    context = Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(context.create_decimal_from_float(value)):g}"
