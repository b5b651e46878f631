"""What a planned run costs an account, and how an account knows its data."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.data.private import PrivateImages, records
from sfumato.ledger.store import Cost
from sfumato.privacy.plan import Plan

# A run that is not purely Gaussian may fail with this share of its delta when runs are composed.
SLACK_SHARE = 0.01


def cost_of(plan: Plan, relation: Relation) -> Cost:
    """The whole plan as one Gaussian that dominates it, for the filter across runs."""
    events = plan.events(relation)
    mu, slack = accountant.dominating_gaussian(events, plan.budget.delta * SLACK_SHARE)
    return Cost(mu, slack, accountant.profile(events).epsilon)


def digests_of(data: PrivateImages) -> NDArray[np.uint8]:
    """What the ledger knows the data by, under its key: the content of each image, and who is in it.

    Where persons are named there is a second row for each image, with the digest of the person's identifier: so that
    other images of the same person are met, and a resumed run has each image with its person.
    """
    inside = records(data)
    if inside.persons is None or inside.people is None:
        return inside.digests
    return np.concatenate([inside.digests, inside.people[inside.persons]])


def fingerprint(digests: NDArray[np.uint8], run: str) -> str:
    """Tells whether a resumed run has the same data; salted by the run, so that it links nothing else."""
    return hashlib.blake2b(np.ascontiguousarray(digests).tobytes(), key=bytes.fromhex(run)).hexdigest()


def is_named(data: PrivateImages) -> bool:
    """Whether the set has a name that says nothing of its content, so that its account may be spoken of."""
    return data.spec.name not in ("arrays", "images")


def account_name(data: PrivateImages) -> str:
    """The path or name of the set; arrays in memory have none and go by their content."""
    if is_named(data):
        return data.spec.name
    return f"{data.spec.name}-" + hashlib.blake2b(records(data).digests.tobytes(), digest_size=8).hexdigest()
