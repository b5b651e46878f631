"""A crossing of one value of a whole sample, as a subject: any two samples that differ in one unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sfumato.accounting.budget import Relation
from sfumato.audit.checks.inclusion import inclusion_of
from sfumato.audit.recording.crossings import VALUES, Around, claims, image_pairs
from sfumato.audit.recording.crossings import WILD as KINDS
from sfumato.audit.recording.recording_barrier import Asked, MadeUp, made_up
from sfumato.audit.recording.subject import Array, Pair, Random, Subject
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.plan import Plan


def value_subject(asked: Asked, plan: Plan) -> Subject:
    """The crossing as a subject, on neighbouring samples. Records mix in it, so that there are no rows to look at."""
    inside = Around(asked, plan)
    crossing = plan.crossings[asked.name]
    return Subject(
        name=asked.name,
        pairs=lambda random: image_pairs(plan.data, random),
        exact=inside.exact,
        release=inside.release,
        anew=inside.anew,
        projected=inside.projected,
        nothing=(None,),
        inclusion=inclusion_of(asked.name, plan) if crossing.sampler.rate < 1 else None,
        **claims(asked.name, plan),
    )


def anything_subject(asked: Asked, plan: Plan) -> Subject:
    """The same crossing with any value at all in place of the method's own; the furthest is one turned round."""
    assert isinstance(asked.query, BatchValue)
    query = asked.query
    shape = query.shape
    inside = Around(asked, plan)

    def exact(data: tuple[MadeUp, str]) -> Array:
        records, kind = data

        def value(images: Tensor, labels: Tensor, *public: Any) -> Tensor:
            return torch.full(shape, VALUES[kind] if kind else 1.0, dtype=torch.float64, device=images.device)

        return Around(replace(asked, query=replace(query, function=value)), plan).exact(records)

    def pairs(random: Random) -> Iterator[Pair]:
        records = made_up(plan.data, random, 3)
        for relation in Relation:
            yield from (Pair(kind, relation, (records, ""), (records, kind)) for kind in KINDS)
            yield Pair("turned", relation, (records, "huge"), (records, "turned"))

    return Subject(
        name=f"{asked.name}, any value",
        pairs=pairs,
        exact=exact,
        release=inside.release,
        projected=inside.projected,
        **claims(asked.name, plan),
    )
