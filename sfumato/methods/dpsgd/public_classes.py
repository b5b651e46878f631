"""Public images of the classes that private records look like (PrivImage; Li et al., USENIX Security 2024).

h          a classifier of public classes, trained on public images: public
V_ck       number of records of class c that h puts into the public class k
released   V + N_Z(0, sigma^2), once                              Delta = 1 (add-remove), sqrt(2) (replace-one)
kept       for each class c the public classes with most votes; their images get c for a label
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from sfumato.data.public import PublicImages
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.label_histogram import VOTE
from sfumato.engine.public_pretrain import known
from sfumato.errors import InputError
from sfumato.methods.sets.convnets import ConvNet
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.plan import BudgetShare
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.methods.dpsgd.dpdm import DPDM
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run

QUERY = "classes"
BATCH = 128
DEVIATION = "A noisy histogram of the records chose the classes of the public images; the paper has none."


def query_shares(share: float) -> dict[str, BudgetShare]:
    """The histogram, with its share of the squared mu; none at 0."""
    return {QUERY: BudgetShare(VOTE, share)} if share else {}


def like_private(method: DPDM, public: PublicImages | None, barrier: Barrier, run: Run) -> PublicImages | None:
    """The public images of classes that the records voted for; all of them where nobody is asked."""
    if not method.query_share:
        return public
    if public is None:
        raise InputError(f"Expected public images for query_share={method.query_share}; give --public DATA.")
    h = classifier(public, method, barrier, run)
    kinds = len(public.images.classes)
    query = BoundedSum(lambda images, labels: votes(h, images), VOTE, (kinds,), by_class=True)
    V = run.once(QUERY, lambda: barrier.release(QUERY, query))  # the barrier
    return chosen(public, V.cpu(), method.query_classes, barrier.spec.classes)


def votes(h: ConvNet, images: Tensor) -> Tensor:
    """One vote a record, in the precision of its images."""
    weights = {name: p.to(images) for name, p in h.named_parameters()}
    return one_hot(torch.func.functional_call(h, weights, (images,)).argmax(1), h.head.out_features)


def chosen(public: PublicImages, V: Tensor, each: int, classes: tuple[str, ...]) -> PublicImages:
    """Public images whose class is among the `each` first of a private class, with that class for a label.

    >>> import numpy as np
    >>> images = Images(np.zeros((3, 1, 1, 1), np.uint8), np.arange(3), ("cat", "car", "cow"))
    >>> kept = chosen(PublicImages(images, "made up"), torch.tensor([[9, 0, 1], [0, 7, 8]]), 1, ("pet", "herd"))
    >>> kept.images.labels.tolist()
    [0, 1]
    """
    there = torch.bincount(torch.from_numpy(public.images.labels), minlength=V.shape[1]) > 0
    V = V.double().masked_fill(~there, -torch.inf)  # noise may lead to a class without images
    best = V.topk(min(each, V.shape[1]), 1).indices
    wanted = torch.zeros(V.shape, dtype=torch.bool).scatter(1, best, True)
    whose = V.masked_fill(~wanted, -torch.inf).argmax(0).numpy()  # by most votes, where several want it
    rows = wanted.any(0).numpy()[public.images.labels]
    images = public.images
    return PublicImages(Images(images.pixels[rows], whose[images.labels[rows]], classes), public.provenance)


def classifier(public: PublicImages, method: DPDM, barrier: Barrier, run: Run) -> ConvNet:
    """h, by ordinary steps on all public images."""
    pixels, _ = known(public, barrier.spec)
    labels = torch.from_numpy(public.images.labels).long()
    kinds = len(public.images.classes)
    h = seeded(run, lambda: ConvNet(barrier.spec.shape, kinds, method.query_width))
    optimiser = torch.optim.Adam(h.parameters(), lr=1e-3)
    run.progress.start("public classes", method.query_steps)
    for step in run.rounds(method.query_steps):
        rows = torch.randint(len(pixels), (BATCH,), generator=run.generator("public classes", step))
        optimiser.zero_grad(set_to_none=True)
        scores = h(pixels[rows].to(run.device).float().div(255))
        cross_entropy(scores, labels[rows].to(run.device)).backward()
        optimiser.step()
        run.progress.advance(step + 1, "public")
        run.check()
    return h.requires_grad_(False).eval()
