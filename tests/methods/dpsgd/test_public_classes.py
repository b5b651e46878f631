"""PrivImage: one noisy histogram chooses public classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import DPDM, Budget, DataSpec, InputError, Relation, Run, load
from sfumato.data.public import PublicImages
from sfumato.methods.dpsgd.public_classes import DEVIATION, QUERY, chosen, like_private, votes
from sfumato.methods.sets.convnets import ConvNet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.types import Images
from tests.explicit import halves

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
TINY = {"steps": 1, "width": 8, "depth": 1, "sampler_steps": 2, "noise_multiplicity": 1, "batch": 60}
ASKED = TINY | {"query_share": 0.5, "query_classes": 1, "query_steps": 150, "query_width": 8}


def three_kinds():
    """Bright below, stripes, bright above: the private classes are the last and the first, in this order."""
    images, labels = halves(120)
    stripes = np.broadcast_to((np.arange(8) % 2 * 255).astype(np.uint8), (60, 8, 8))
    pixels = np.concatenate([images[labels == 1], stripes, images[labels == 0]])
    return PublicImages(Images(pixels[:, None], np.repeat(np.arange(3), 60), ("below", "stripes", "above")), "made up")


def asked(method, public):
    data = load(halves())
    plan = method.plan(data.spec, Budget(8.0))
    quiet = {name: replace(c, mechanism=type(c.mechanism)(1e-3)) for name, c in plan.crossings.items()}
    barrier = Barrier(data, data.spec, Odometer(replace(plan, crossings=quiet)))
    run = Run(device="cpu")
    return like_private(method, public, barrier, run), barrier, run


def test_records_vote_for_the_public_class_that_they_look_like():
    kept, barrier, run = asked(DPDM(**ASKED), three_kinds())
    above, below = (kept.images.pixels[kept.images.labels == c][:, 0].mean(0) for c in (0, 1))
    assert kept.images.classes == ("0", "1") and len(kept.images) == 120 and barrier.used[QUERY] == 1
    assert above[:4].mean() > 200 > 60 > above[4:].mean() and below[4:].mean() > 200 > 60 > below[:4].mean()
    assert run.kept[QUERY].sum().item() == 240


def test_without_a_share_nobody_is_asked_and_without_images_it_is_refused():
    public = three_kinds()
    assert asked(DPDM(**TINY), public)[0] is public
    with pytest.raises(InputError, match="query_share=0.5; give --public"):
        asked(DPDM(**ASKED), None)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_histogram_takes_its_share_and_gradients_the_rest(relation):
    budget = Budget(1.0, relation=relation)
    plain, half = (DPDM(steps=100, query_share=share).plan(MNIST, budget) for share in (0.0, 0.5))
    assert set(half.crossings) == {QUERY, "gradient"} and half.epsilon() <= 1.0 and QUERY not in plain.crossings
    assert half.crossings[QUERY].mechanism.kind == "discrete-gaussian" and half.crossings[QUERY].times == 1
    assert half.facts["noise"] > 1.3 * plain.facts["noise"] and DEVIATION in half.deviations
    assert half.paper["epsilon"] > 0.5


def test_a_record_has_one_vote_whatever_it_shows():
    net = ConvNet((1, 8, 8), 4, 8, 2)
    images = torch.cat([torch.rand(5, 1, 8, 8), torch.full((1, 1, 8, 8), torch.nan)]).double()
    assert votes(net, images).sum(1).tolist() == [1] * 6


def test_a_public_class_that_two_want_goes_to_the_one_with_more_votes():
    public = three_kinds()
    kept = chosen(public, torch.tensor([[5, 4, 0], [9, 1, 0]]), 2, ("x", "y"))
    assert np.bincount(kept.images.labels).tolist() == [60, 60]  # stripes to x, below to y
    assert len(chosen(public, torch.tensor([[5, 4, 0]]), 9, ("x",)).images) == 180


def test_a_public_class_without_images_is_never_the_one_chosen():
    images = three_kinds().images
    public = PublicImages(Images(images.pixels, images.labels, (*images.classes, "nothing")), "made up")
    assert len(chosen(public, torch.tensor([[5, 4, 0, 99]]), 1, ("x",)).images) == 60


@pytest.mark.parametrize("wrong", [{"query_share": 1.0}, {"embedding_share": 0.6, "query_share": 0.5}])
def test_shares_beyond_the_budget_are_refused(wrong):
    with pytest.raises(ValueError, match="Expected .*query_share"):
        DPDM(**wrong)
