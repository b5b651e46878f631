"""DP-SGD as DataLens accounts it (TopAgg and GM-DP, by Opacus), and as DPDL did (Abadi et al. 2016)."""

from __future__ import annotations

from sfumato.accounting.budget import Relation
from sfumato.accounting.claims.label import Claim, claim
from sfumato.accounting.events import Event
from sfumato.accounting.rdp import epsilon_by_renyi

MOMENTS = tuple(float(order) for order in range(2, 34))


def _steps(rate: float, multiplier: float, steps: int) -> tuple[Event]:
    return (
        Event(
            "gaussian",
            sigma=multiplier,
            sensitivity=1.0,
            bound=1.0,
            relation=Relation.ADD_REMOVE,
            rate=rate,
            times=steps,
        ),
    )


def topagg(rate: float, multiplier: float, steps: int, delta: float = 1e-5) -> Claim:
    """Renyi DP of subsampled Gaussians with Mironov's conversion; `multiplier` is sigma over the clipping norm.

    >>> topagg(512 / 60_000, 1.6, 400)["epsilon"] > topagg(512 / 60_000, 1.8, 400)["epsilon"]
    True
    """
    found = epsilon_by_renyi(_steps(rate, multiplier, steps), delta, "mironov")
    reason = "loose conversion; batches are assumed to be Poisson samples, which the paper's loader need not give"
    return claim(found, reason, dpdl=dpdl(rate, multiplier, steps, delta)["epsilon"])


def dpdl(rate: float, multiplier: float, steps: int, delta: float = 1e-5) -> Claim:
    """The moments accountant: log moments of whole orders up to 32.

    >>> dpdl(0.01, 4.0, 10_000)["epsilon"] >= topagg(0.01, 4.0, 10_000)["epsilon"]  # Abadi et al. state 1.26
    True
    """
    found = epsilon_by_renyi(_steps(rate, multiplier, steps), delta, "mironov", orders=MOMENTS)
    return claim(found, "loose: the moments accountant of Abadi et al. with its 32 whole orders")
