"""Images of a cheap release, on which a network learns before its first private step.

    released   the mean embedding of DP-MERF, once, with a share of the budget
    images     of a small generator that is fitted to it: post-processing, as free as public images
    then       ordinary steps of the network on them, before those of DP-SGD with the rest of the budget

After DP-FETA (Li et al. 2025), which begins with noisy mean images of each class. Such images show what the classes
look like, which DP-SGD learns slowly; DP-SGD adds what an embedding cannot hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.data.public import PublicImages
from sfumato.engine.repeated import RepeatedRun
from sfumato.methods.embedding.dp_merf import DPMERF, UNIT_BALL
from sfumato.methods.embedding.mean_embedding import EMBEDDING
from sfumato.privacy.plan import BudgetShare

if TYPE_CHECKING:
    from sfumato.methods.dpsgd.dpdm import DPDM
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run

IMAGES = 20_000
STREAM = "draft"  # names the public randomness of these steps; another name would draw other numbers
DEVIATION = "Before the first private step come ordinary ones on images of one released embedding; the paper has none."
PROVENANCE = "images of an embedding that was released before"


def embedding_shares(share: float) -> dict[str, BudgetShare]:
    """The release of an embedding that gets this share of the squared mu; none at 0."""
    return {EMBEDDING: BudgetShare(UNIT_BALL, share)} if share else {}


def embedding_images(method: DPDM, barrier: Barrier, run: Run) -> PublicImages:
    """The images, as many as the network will look at."""
    merf = DPMERF(
        labels=method.labels, features=method.embedding_features, steps=method.embedding_steps, batch=100, width=64
    )
    # All of a run that DP-MERF uses; the barrier is inside.
    net = merf.learn(barrier, RepeatedRun(run, STREAM, EMBEDDING))  # type: ignore[arg-type]
    count = min(IMAGES, method.public_steps * method.public_batch)
    return PublicImages(net.sample(count, seed=run.seed), PROVENANCE)
