"""Bugs of DP-SGD: records that mix, sums that are not bounded, divisors that leak. All but one in the real engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.accounting.budget import Relation
from sfumato.audit.gallery.common import Bug, change, declared, normal_batch, record, vector_pairs
from sfumato.audit.gallery.engine import (
    EXPECTED,
    D,
    barrier,
    batch,
    free,
    gradient_step,
    linear,
    rows_of,
    total,
    untried,
)
from sfumato.audit.recording.subject import Array, Pair, Random, Subject
from sfumato.engine.dpsgd import GRADIENT, DPSGDConfig
from sfumato.engine.gradients.clipping import Clip
from sfumato.engine.gradients.per_example import assign, per_example
from sfumato.engine.gradients.topk import TopK
from sfumato.privacy.bounds import Bound

BOUND = Bound(1.0)
# records that are looked at one by one, and of a step
BATCH = 12
SIZE = 64


def clip_the_mean(bug: bool) -> Subject:
    """The gradient of the batch's mean loss is clipped as if it were one record's, then scaled back to a sum."""
    query = linear()

    def exact(data: Array) -> Array:
        if not bug or not len(data):
            return total(query, data)
        return len(data) * total(query, np.nan_to_num(data, posinf=0, neginf=0).mean(0, keepdims=True))

    return gradient_step("clipping", query, exact=exact)


class Whiten(nn.Module):
    """Batch normalisation under a name that nobody knows."""

    def forward(self, x: Tensor) -> Tensor:
        """Statistics of the batch."""
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def critic_net(mixing: bool) -> nn.Module:
    """A small critic with a normalisation of batches, or of single records."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        norm: nn.Module = Whiten() if mixing else nn.GroupNorm(1, 8)
        return nn.Sequential(nn.Flatten(), nn.Linear(D, 8), norm, nn.LeakyReLU(0.2), nn.Linear(8, 1))


def critic_loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The score of a real record."""
    scores: Tensor = net(images)
    return -scores[:, 0]


def critic(bug: bool) -> Subject:
    """A critic whose normalisation looks at the whole batch. The engine's trial, here left out, would have seen it."""
    net = critic_net(bug)
    query = untried(net, critic_loss) if bug else per_example(net, critic_loss, 1.0, batch=EXPECTED)
    return Subject(name="critic", rows=rows_of(query, normal_batch(BATCH, D), change))


def tail(bug: bool) -> Subject:
    """A head whose gradients are clipped passes through a tail that was trained on the records themselves.

    The record pushes the tail's sign in batch 1; in batch 2, without it, all clipped head gradients turn
    round. The twin trains the tail from the released (taped) gradient of the head alone.
    """
    first_layer = nn.Linear(1, 1, bias=False)
    last_layer = nn.Linear(1, 1, bias=False)
    net = nn.Sequential(nn.Flatten(), first_layer, last_layer)
    head = first_layer.weight
    last = last_layer.weight.requires_grad_(False)
    query = per_example(net, lambda net, images, labels: net(images)[:, 0], 1.0, batch=SIZE)

    def history(data: Array) -> list[tuple[frozenset[int], Array]]:
        released = 0.3  # the tape: what was released in step 1, whatever the data
        head.data.fill_(1.0)
        last.fill_(0.0)
        first = data[:-SIZE]
        second = data[-SIZE:]
        one = total(query, first)
        last.sub_(
            first_layer(batch(first)[0]).mean() if bug else released
        )  # its own slope is what comes out of the head
        return [(frozenset({0}), one), (frozenset({1}), total(query, second))]

    def pairs(random: Random) -> Iterator[Pair]:
        others = np.concatenate([np.full((SIZE - 1, 1), -0.02), 100 + random.normal(size=(SIZE, 1))])
        for relation, other in ((Relation.ADD_REMOVE, others), (Relation.REPLACE_ONE, np.r_[[[-50.0]], others])):
            yield Pair("opposite", relation, np.r_[[[50.0]], others], other)

    return Subject(name="tail", declared=declared(query.bound), pairs=pairs, history=torch.no_grad()(history))


def aggregate(bug: bool) -> Subject:
    """Features are added up before the loss |sum - t|^2 / 2, so that every record's gradient holds the sum of all.

    One record more, and the slope of the loss turns round for everybody. The twin takes it at a sum that was released.
    """
    net = nn.Linear(D, D, bias=False)
    nn.init.eye_(net.weight)
    target = torch.zeros(D)
    target[0] = 10 * (SIZE + 0.5)

    def loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        features: Tensor = net(images.flatten(1))
        held = features.sum(0) if bug else target * 0.9
        return features @ (held - target).detach()

    query = untried(net, loss) if bug else per_example(net, loss, 1.0, batch=EXPECTED)

    def pairs(random: Random) -> Iterator[Pair]:
        yield from vector_pairs(D, sizes=(1, 2))(random)
        same = np.tile(10 * np.eye(D)[0], (SIZE + 1, 1))
        yield Pair("turning", Relation.ADD_REMOVE, same, same[1:])

    rows = rows_of(query, normal_batch(BATCH, D), change)
    return gradient_step("aggregation", query, rows=rows, pairs=pairs, release=None, nothing=())


def zero_variance(bug: bool) -> Subject:
    """Each record is normalised by its own spread, which a constant record does not have."""

    def exact(data: Array) -> Array:
        x = torch.from_numpy(np.nan_to_num(np.clip(np.nan_to_num(data), -1e6, 1e6)))
        centred = x - x.mean(1, keepdim=True)
        if bug:
            return (centred / centred.square().sum(1, keepdim=True).sqrt()).sum(0).numpy()
        spread: Tensor = (centred.square().sum(1, keepdim=True) + 1e-6).sqrt()
        return BOUND.project(centred / spread).sum(0).numpy()

    return Subject(name="normalisation", declared=declared(BOUND), pairs=vector_pairs(D), exact=exact)


def realised_size(bug: bool) -> Subject:
    """The noisy sum is divided by the size that the batch happened to have; it should be by the expected one."""
    query = linear()
    config = DPSGDConfig(steps=1, batch=EXPECTED)
    crossing = free(query)

    def divided(data: Array) -> DPSGDConfig:
        return replace(config, batch=max(1, len(data))) if bug else config

    def release(data: Array) -> Array:
        assign(query.net, barrier(crossing, data).release(GRADIENT, query) / divided(data).batch)
        slope = next(query.net.parameters()).grad
        assert slope is not None
        return EXPECTED * slope[0].double().numpy()

    return gradient_step(
        "divisor",
        query,
        exact=lambda data: total(query, data) * EXPECTED / divided(data).batch,
        release=release,
        projected=None,
        nothing=(np.zeros((40, D)),),
        grid=None,
    )


@dataclass(frozen=True)
class KeepsTheCrossing(Clip):
    """NormTopK as it was published: clip to C, then keep coordinates until a share k of the energy is reached."""

    norm: float
    k: float
    whole_rows: ClassVar[bool] = True

    @property
    def bound(self) -> Bound:
        """sqrt(k) C, as claimed."""
        return Bound(math.sqrt(self.k) * self.norm)

    def weights(self, squared: Tensor) -> Tensor:
        """No projection at the end."""
        return torch.ones_like(squared)

    def keep(self, rows: Tensor) -> Tensor:
        """The largest coordinates, with the one that crosses the share."""
        rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=self.norm) * self.norm
        order = rows.abs().sort(dim=1, descending=True)
        energy = order.values.square().cumsum(1)
        before = torch.cat([torch.zeros_like(energy[:, :1]), energy[:, :-1]], 1)
        return rows * torch.zeros_like(rows).scatter_(1, order.indices, (before < self.k * energy[:, -1:]).to(rows))


def energy(bug: bool) -> Subject:
    """Keep the largest coordinates up to a share of the energy, and not the one that crosses it."""
    query = linear(KeepsTheCrossing(1.0, 0.6) if bug else TopK(1.0, 0.6))

    def pairs(random: Random) -> Iterator[Pair]:
        yield from vector_pairs(D, sizes=(1,))(random)
        for _ in range(100):
            one = record("random", D, random)[None] * random.exponential(size=D)
            yield Pair("random", Relation.ADD_REMOVE, one, one[:0])

    return gradient_step("energy", query, pairs=pairs, release=None, nothing=())


BUGS = (
    Bug("B10", "the batch mean clipped in place of records", clip_the_mean, ("sensitivity", "step audit")),
    Bug("B12", "batch normalisation in the critic", critic, ("influence",)),
    Bug("B13", "non-private tail in the gradient's path", tail, ("private state",)),
    Bug("B14", "aggregation before the loss", aggregate, ("sensitivity", "influence")),
    Bug("B17", "NaN from zero variance", zero_variance, ("sensitivity",)),
    Bug("B20", "sum divided by the realised batch size", realised_size, ("sensitivity", "noise scale"), level=0),
    Bug("B22", "NormTopK keeps the crossing coordinate", energy, ("sensitivity",)),
)
