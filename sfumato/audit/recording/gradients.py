"""A crossing that sums clipped gradients by itself, as a subject: the real engine on made-up records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sfumato.accounting.budget import Relation
from sfumato.audit.checks.frozen_draws import WILD, FrozenDraws, marked
from sfumato.audit.checks.inclusion import inclusion_of
from sfumato.audit.recording.correlation import classes_of
from sfumato.audit.recording.crossings import Around, claims, image_pairs, tensors
from sfumato.audit.recording.recording_barrier import Asked, MadeUp, made_up, with_unit, without_unit
from sfumato.audit.recording.subject import Array, Pair, Random, Subject
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.plan import Plan
from sfumato.types import DataSpec

KINDS = ("random", "antipodal", "white", "duplicate")
CROWD = 128  # records in one sum, all alike, where rounding shows most


def gradient_subject(asked: Asked, plan: Plan) -> Subject:
    """The crossing as a subject: sums, and single rows, of the query's own loss."""
    crossing = plan.crossings[asked.name]
    spec = plan.data
    query = asked.frozen
    inside = Around(replace(asked, query=query), plan)
    return Subject(
        name=asked.name,
        pairs=lambda random: sum_pairs(spec, random, _crowd(query)),
        exact=_once(inside.exact),
        release=inside.release,
        anew=inside.anew,
        projected=inside.projected,
        nothing=(None,),
        rows=inside.rows(spec, lambda records: _jacobian(query, records, asked.public, asked.device)),
        inclusion=inclusion_of(asked.name, plan) if crossing.sampler.rate < 1 else None,
        parts=classes_of(asked.name, plan),
        **claims(asked.name, plan),
    )


def memory_subject(asked: Asked, plan: Plan) -> Subject:
    """The same question before and after another one in which the record took part: nothing may be remembered."""
    inside = Around(replace(asked, query=asked.frozen), plan)
    spec = plan.data
    others = made_up(spec, np.random.default_rng(7), 4)

    def history(records: MadeUp) -> list[tuple[frozenset[int], Array]]:
        return [(frozenset({0}), inside.exact(records)), (frozenset({1}), inside.exact(others))]

    def pairs(random: Random) -> Iterator[Pair]:
        records = made_up(spec, random, 4)
        yield Pair("removed", Relation.ADD_REMOVE, records, without_unit(records, 0))
        yield Pair("opposite", Relation.REPLACE_ONE, records, with_unit(records, 0, "opposite", spec, random))

    declared = {r: plan.crossings[asked.name].event(r, 1).sensitivity for r in Relation}
    return Subject(name=f"{asked.name}, memory", declared=declared, pairs=pairs, history=history)


def loud_subject(asked: Asked, plan: Plan) -> Subject:
    """The same crossing with a loss that says anything of one record; among its neighbours are gradients of full norm
    that appear, or turn round."""
    frozen = asked.frozen

    def exact(records: MadeUp, *kinds: tuple[int, str]) -> Array:
        return Around(replace(asked, query=frozen.louder(dict(kinds))), plan).exact(records)

    def pairs(random: Random) -> Iterator[Pair]:
        records = made_up(plan.data, random, 3)
        who = np.arange(len(records.labels)) if records.persons is None else records.persons
        records = replace(records, images=marked(records.images, who))
        rest = without_unit(records, 0)
        alone = without_unit(without_unit(records, 2), 1)
        for kind in WILD:
            yield Pair(kind, Relation.REPLACE_ONE, (records,), (records, (0, kind)))
            yield Pair(kind, Relation.ADD_REMOVE, (records, (0, kind)), (rest,))
        yield Pair("turned", Relation.REPLACE_ONE, (records, (0, "loud")), (records, (0, "turned")))
        yield Pair("lone", Relation.ADD_REMOVE, (without_unit(alone, 0),), (alone, (0, "loud")))

    once = _once(exact)
    inside = Around(replace(asked, query=frozen), plan)
    return Subject(
        name=f"{asked.name}, wild losses",
        pairs=pairs,
        exact=lambda data: once(*data),
        release=inside.release,
        projected=inside.projected,
        **claims(asked.name, plan),
    )


def as_canary(asked: Asked) -> Asked:
    """The crossing with a canary in it: the image marked 1 has a gradient of full norm, marked 0 one turned round."""
    if not isinstance(asked.query, ClippedGradient):
        return asked
    return replace(asked, query=asked.frozen.louder({1: "loud", 0: "turned"}))


def _once(exact: Callable[..., Array]) -> Callable[..., Array]:
    """The same, computed once for the same records: gradients take their time."""
    answers: dict[Any, Array] = {}

    def again(records: MadeUp, *more: Any) -> Array:
        key = records.key, more
        if key not in answers:
            answers[key] = exact(records, *more)
        return answers[key]

    return again


def _crowd(query: Any) -> int:
    batch = query.query.batch if isinstance(query, FrozenDraws) else 0
    return min(CROWD, 2 * batch + 100)


def sum_pairs(spec: DataSpec, random: Random, crowd: int) -> Iterator[Pair]:
    """Neighbours of every kind among a few records, a record alone, and one of a crowd that is all alike."""
    yield from image_pairs(spec, random, kinds=KINDS)
    lone = made_up(spec, random, 1)
    yield Pair("lone", Relation.ADD_REMOVE, lone, without_unit(lone, 0))
    rows = len(lone.labels)
    persons = None if lone.persons is None else np.repeat(np.arange(crowd), rows)
    many = MadeUp(np.tile(lone.images, (crowd, 1, 1, 1)), np.tile(lone.labels, crowd), persons)
    yield Pair("crowded", Relation.ADD_REMOVE, many, without_unit(many, 0))
    yield Pair("crowded", Relation.REPLACE_ONE, many, with_unit(many, 0, "opposite", spec, random))


def jacobian(real: ClippedGradient, images: Tensor, labels: Tensor, *public: Any) -> Array:
    """Size of the derivative of each record's gradient by each image.

    Where the engine takes one example at a time there is none by another; where a layer cannot be derived twice, that
    of the loss stands in.
    """
    sizes = np.zeros((len(images), len(images)))
    if real._settle(images, public) != "ghost":
        return sizes
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        images = images.clone().requires_grad_()
        losses = real._losses(real.net, real._batch(images, labels), public)
        for i, loss in enumerate(losses.view(len(images), real.noise_multiplicity).sum(1)):
            try:
                moved = _slope(_gradient_length(loss, real), images)
            except RuntimeError:
                moved = _slope(loss, images)
            sizes[i] = 0 if moved is None else moved.flatten(1).abs().amax(1).cpu().numpy()
    return sizes


def _jacobian(query: Any, records: MadeUp, public: tuple[Any, ...], device: str) -> Array:
    images, labels = tensors(records, device)
    if not isinstance(query, FrozenDraws):
        return np.zeros((len(images), len(images)))
    return jacobian(query.on(images), images, labels, *public)


def _gradient_length(loss: Tensor, real: ClippedGradient) -> Tensor:
    slopes = torch.autograd.grad(loss, list(real.parameters.values()), create_graph=True, allow_unused=True)
    return sum((s.square().sum() + s.sum() for s in slopes if s is not None), loss * 0)


def _slope(value: Tensor, images: Tensor) -> Tensor | None:
    if not value.requires_grad:
        return None
    return torch.autograd.grad(value, images, retain_graph=True, allow_unused=True)[0]
