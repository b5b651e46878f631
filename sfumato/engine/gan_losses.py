"""The losses of generator and critic, one number for each image, and the slope that a Wasserstein critic should have.

With s(x, y) the critic's score of an image x with label y:

    nonsaturating   real log(1 + e^-s)    fake log(1 + e^s)    generator log(1 + e^-s)    (Goodfellow et al. 2014)
    wgan            real -s               fake s               generator -s               (Arjovsky et al. 2017)
    acgan           as nonsaturating, and each side also pays for a wrong guess of the label   (Odena et al. 2017)

The penalty of a real record x belongs to it alone: lambda (||grad s(u x + (1 - u) x', y)|| - 1)^2 with one fake x' and
one u (Gulrajani et al. 2017). Which they are is a function of the record's own pixels and of a public key, fresh each
step (`sfumato.record_rng`): for any key a record's term depends on no other record, whatever place in a batch it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.record_rng import record_keys, uniform

Side = Callable[[Tensor, Tensor], Tensor]  # the critic's outputs (B, ...) and labels -> (B,)
Loss = Callable[..., Tensor]
TINY = 1e-12  # under the root, whose slope at zero is infinite


@dataclass(frozen=True)
class Objective:
    """What each player pays for the critic's outputs."""

    real: Side
    fake: Side
    lure: Side  # the generator's
    guesses: bool = False  # the critic guesses labels
    bounded: bool = True  # scores above zero mean real


def _score(out: Tensor) -> Tensor:
    return out[:, 0]


def _guess(out: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(out[:, 1:], labels, reduction="none")


OBJECTIVES = {
    "nonsaturating": Objective(
        lambda out, labels: F.softplus(-_score(out)),
        lambda out, labels: F.softplus(_score(out)),
        lambda out, labels: F.softplus(-_score(out)),
    ),
    "wgan": Objective(
        lambda out, labels: -_score(out),
        lambda out, labels: _score(out),
        lambda out, labels: -_score(out),
        bounded=False,
    ),
    "acgan": Objective(
        lambda out, labels: F.softplus(-_score(out)) + _guess(out, labels),
        lambda out, labels: F.softplus(_score(out)) + _guess(out, labels),
        lambda out, labels: F.softplus(-_score(out)) + _guess(out, labels),
        guesses=True,
    ),
}


def real_loss(objective: Objective, penalty: float = 0.0) -> Loss:
    """loss(critic, images, labels, fakes, key): of real records, each with its own penalty."""

    def loss(critic: nn.Module, images: Tensor, labels: Tensor, fakes: Tensor, key: Tensor) -> Tensor:
        losses = objective.real(critic(images, labels), labels)
        return losses + penalty * steepness(critic, images, labels, fakes, key) if penalty else losses

    return loss


def fake_loss(objective: Objective) -> Loss:
    """loss(critic, images, labels): of fakes, which are public."""
    return lambda critic, images, labels: objective.fake(critic(images, labels), labels)


def steepness(critic: nn.Module, images: Tensor, labels: Tensor, fakes: Tensor, key: Tensor) -> Tensor:
    """(B,): how far the slope of the score is from 1, squared, between each image and its fake."""
    at, share = partner(images, len(fakes), key)
    share = share.to(images)[:, None, None, None]
    between = share * images + (1 - share) * fakes.to(images)[at]
    slope: Tensor = torch.func.grad(lambda x: _score(critic(x, labels)).sum())(between)
    return ((slope.flatten(1).square().sum(1) + TINY).sqrt() - 1).square()


def partner(images: Tensor, fakes: int, key: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) places among the fakes and (B,) shares between 0 and 1, as good as random and each record's own."""
    own = record_keys(images, key)
    return (uniform(own, ()) * fakes).long().clamp(max=fakes - 1), uniform(own, (), 1)
