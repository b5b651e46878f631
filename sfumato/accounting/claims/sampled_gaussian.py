"""What papers that train a generator by DP-SGD would state: Renyi DP of Poisson-sampled Gaussians."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.accounting.budget import Relation
from sfumato.accounting.claims.label import Claim, claim
from sfumato.accounting.events import Event
from sfumato.accounting.rdp import epsilon_by_renyi

SOUND = "the moments accountant for Poisson batches under add-remove; sound, and looser than what is stated above"


def dp_sgd(
    rate: float, multiplier: float, steps: int, delta: float, *, reason: str = SOUND, also: Sequence[Event] = ()
) -> Claim:
    """Epsilon of `steps` steps with noise of `multiplier` times the clipping norm, and of other events before them.

    >>> round(dp_sgd(256 / 60_000, 1.0, 14_040, 1e-5)["epsilon"], 2)
    3.08
    """
    gradient = Event("gaussian", multiplier, 1.0, 1.0, Relation.ADD_REMOVE, rate, steps)
    return claim(epsilon_by_renyi([gradient, *also], delta), reason)
