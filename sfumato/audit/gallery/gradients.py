"""Bugs of DP-SGD-like steps: records that mix, sums that are not bounded, divisors that leak."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.accounting.budget import Relation
from sfumato.audit.gallery.common import Bug, add_noise, change, clipped, declared, normal_batch, record, vector_pairs
from sfumato.audit.subject import Array, Pair, Random, Rows, Subject
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import Gaussian

D, BATCH = 6, 12
BOUND, NOISE = Bound(1.0), Gaussian(1.0)
EXPECTED = 16.0  # public size of a batch: rate times records


def _step(name: str, exact: object, bound: Bound = BOUND, **parts: object) -> Subject:
    given = dict(
        declared=declared(bound), pairs=vector_pairs(D), exact=exact, sigma=NOISE.std(bound), grid=bound.grid,
        release=lambda data: add_noise(exact(data), NOISE, bound), nothing=(np.zeros((8, D)),),  # type: ignore[operator]
    )  # fmt: skip
    return Subject(name=name, **(given | parts))  # type: ignore[arg-type]


def clip_the_mean(bug: bool) -> Subject:
    """The mean of the batch is clipped, then scaled back to a sum; each record should be clipped before."""

    def exact(data: Array) -> Array:
        if bug:
            return len(data) * clipped(np.nan_to_num(data).mean(0, keepdims=True), BOUND) if len(data) else np.zeros(D)
        return clipped(data, BOUND)

    return _step("clipping", exact)


def critic(bug: bool) -> Subject:
    """Gradients of single records, of a critic whose normalisation looks at the whole batch, or at one record."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        norm: nn.Module = nn.BatchNorm1d(8, track_running_stats=False) if bug else nn.GroupNorm(1, 8)
        net = nn.Sequential(nn.Linear(D, 8), norm, nn.LeakyReLU(0.2), nn.Linear(8, 1)).double()

    def of(data: Array) -> Array:
        scores = net(torch.from_numpy(data))[:, 0]
        found = [torch.autograd.grad(s, net[0].weight, retain_graph=True)[0].flatten() for s in scores]
        return torch.stack(found).numpy()

    def jacobian(data: Array) -> Array:
        x = torch.from_numpy(data.copy()).requires_grad_()
        scores = net(x)[:, 0]
        rows = [torch.autograd.grad(s, x, retain_graph=True)[0].abs().amax(1) for s in scores]
        return torch.stack(rows).numpy()

    return Subject(name="critic", rows=Rows(of, normal_batch(BATCH, D), change, jacobian))


def tail(bug: bool) -> Subject:
    """A head whose gradients are clipped passes through a tail that was trained on the records themselves.

    The record pushes the tail's sign in batch 1; in batch 2, without it, all clipped head gradients turn round. The
    twin trains the tail from the released (taped) gradient of the head alone.
    """
    size, u = 64, 1.0

    def history(data: Array) -> list[tuple[frozenset[int], Array]]:
        weight, released = 0.0, 0.3  # the tape: what was released in step 1, whatever the data
        first, second = data[:size, :1], data[size : 2 * size, :1]
        one = np.clip(first * 0.0 + 1.0, -u, u).sum(0)
        weight -= 0.1 * (float(first.mean()) if bug else released)
        two = np.clip(np.sign(weight) * (np.abs(second) + 2.0), -u, u).sum(0)
        return [(frozenset(range(size)), one), (frozenset(range(size, 2 * size)), two)]

    def pairs(random: Random) -> Iterator[Pair]:
        base = random.normal(size=(2 * size, 1)) * 0.01
        one, two = base.copy(), base.copy()
        one[0], two[0] = 50.0, -50.0
        yield Pair("opposite", Relation.REPLACE_ONE, one, two)

    return Subject(name="tail", declared={Relation.REPLACE_ONE: 2 * u, Relation.ADD_REMOVE: u}, pairs=pairs,
                   history=history)  # fmt: skip


def aggregate(bug: bool) -> Subject:
    """Features are added up before the loss, so that every record's gradient holds the sum of all.

    The twin takes the loss at an aggregate that was released before.
    """
    released = np.full(D, 0.3)

    def of(data: Array) -> Array:
        total = np.tanh(data).sum(0) if bug else released
        upstream = total - 1.0
        return (1 - np.tanh(data) ** 2) * upstream

    def jacobian(data: Array) -> Array:
        x = torch.from_numpy(data.copy()).requires_grad_()
        total = x.tanh().sum(0) if bug else torch.from_numpy(released)
        rows = (1 - x.tanh() ** 2) * (total - 1.0)
        found = [torch.autograd.grad(r.sum(), x, retain_graph=True)[0].abs().amax(1) for r in rows]
        return torch.stack(found).numpy()

    return _step("aggregation", lambda data: clipped(of(np.nan_to_num(data)), BOUND) if len(data) else np.zeros(D),
                 rows=Rows(of, normal_batch(BATCH, D), change, jacobian), nothing=())  # fmt: skip


def zero_variance(bug: bool) -> Subject:
    """Each record is normalised by its own spread, which a constant record does not have."""

    def exact(data: Array) -> Array:
        x = torch.from_numpy(np.nan_to_num(np.clip(np.nan_to_num(data), -1e6, 1e6)))
        centred = x - x.mean(1, keepdim=True)
        if bug:
            return (centred / centred.square().sum(1, keepdim=True).sqrt()).sum(0).numpy()
        spread: Tensor = (centred.square().sum(1, keepdim=True) + 1e-6).sqrt()
        return BOUND.project(centred / spread).sum(0).numpy()

    return _step("normalisation", exact, nothing=())


def realised_size(bug: bool) -> Subject:
    """The noisy sum is divided by the size that the batch happened to have; it should be by the expected one."""

    def scale(data: Array) -> float:
        return EXPECTED / max(1, len(data)) if bug else 1.0

    return _step(
        "divisor", lambda data: clipped(data, BOUND) * scale(data), nothing=(np.zeros((16, D)), np.zeros((40, D))),
        release=lambda data: add_noise(clipped(data, BOUND), NOISE, BOUND) * scale(data), grid=None,
    )  # fmt: skip


def energy(bug: bool) -> Subject:
    """Keep the largest coordinates up to a share of the energy, and not the one that crosses it."""
    share = 0.6
    bound = Bound(math.sqrt(share))

    def kept(row: Array) -> Array:
        row = np.nan_to_num(row, nan=0.0, posinf=0.0, neginf=0.0)
        length = np.abs(row).max() * np.linalg.norm(row / max(np.abs(row).max(), 1e-300))
        row = row / max(length, 1.0)  # clipped to norm 1 first
        order = np.argsort(-np.abs(row), kind="stable")
        energy = np.cumsum(row[order] ** 2)
        count = int((energy <= share * energy[-1]).sum()) + (1 if bug else 0)
        made = np.zeros_like(row)
        made[order[:count]] = row[order[:count]]
        return made

    def exact(data: Array) -> Array:
        return np.sum([kept(row) for row in data], axis=0) if len(data) else np.zeros(D)

    def pairs(random: Random) -> Iterator[Pair]:
        yield from vector_pairs(D, sizes=(1,))(random)
        for _ in range(200):
            one = record("random", D, random)[None] * random.exponential(size=D)
            yield Pair("random", Relation.ADD_REMOVE, one, one[:0])

    return _step("energy", exact, bound, pairs=pairs, nothing=())


BUGS = (
    Bug("B10", "the batch mean clipped in place of records", clip_the_mean, ("sensitivity", "step audit")),
    Bug("B12", "batch normalisation in the critic", critic, ("influence",)),
    Bug("B13", "non-private tail in the gradient's path", tail, ("private state",)),
    Bug("B14", "aggregation before the loss", aggregate, ("influence",)),
    Bug("B17", "NaN from zero variance", zero_variance, ("sensitivity",)),
    Bug("B20", "sum divided by the realised batch size", realised_size, ("sensitivity", "noise scale")),
    Bug("B22", "NormTopK keeps the crossing coordinate", energy, ("sensitivity",)),
)
