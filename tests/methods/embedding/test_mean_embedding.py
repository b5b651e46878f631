"""What methods of one release share: the warning, the targets, the generator, and one rule for private labels."""

from __future__ import annotations

import pytest
import torch

from sfumato import DPHP, DPMERF, DPNTK, DPSWD, PEARL, Budget, DataSpec, Run
from sfumato.data.labels import LabelPrior
from sfumato.methods.embedding.mean_embedding import EMBEDDING, generator, means, public_random, too_few_data
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from tests.one_release import MNIST, bright_and_dark


def behind(method, box):
    odometer = Odometer(method.plan(box.spec, Budget(1.0)))
    return Barrier(box, box.spec, odometer), Run(device="cpu", odometer=odometer)


def test_the_warning_names_how_much_longer_the_noise_is():
    few = DataSpec("few", 100, (1, 8, 8), ("a", "b"))
    plan = DPMERF().plan(few, Budget(1.0, 1e-5))
    sigma = plan.crossings[EMBEDDING].mechanism.multiplier
    assert f"about {sigma * 2000**0.5 * 2 / 100:.1f} times" in too_few_data(plan, 2000)[0]
    assert too_few_data(plan, 2000, length=1e6) == ()


def test_means_are_sums_over_declared_sizes_and_nothing_where_there_is_no_record():
    prior = LabelPrior("declared", weights=(1.0, 0.0))
    barrier, run = behind(DPMERF(labels=prior), bright_and_dark(40))
    target = means(prior, torch.full((2, 3), 8.0, dtype=torch.float64), barrier, run)
    assert torch.equal(target[0], torch.full((3,), 0.2)) and target[1].isnan().all()


def test_a_generator_follows_the_seed_of_the_run_alone():
    method = DPMERF(latent=4, width=8)
    barrier, run = behind(method, bright_and_dark(40))
    state = torch.random.get_rng_state()
    one, two = (generator(method, barrier, run).state_dict() for _ in range(2))
    assert all(torch.equal(one[k], two[k]) for k in one) and torch.equal(torch.random.get_rng_state(), state)


def test_public_randomness_is_fixed_by_its_seed():
    assert torch.equal(torch.randn(3, generator=public_random(5)), torch.randn(3, generator=public_random(5)))


@pytest.mark.parametrize("method", [DPHP, DPMERF, DPNTK, DPSWD, PEARL])
def test_a_private_histogram_takes_its_share_and_the_release_the_rest(method):
    labels = LabelPrior("private", fraction=0.1)
    plan, whole = (m.plan(MNIST, Budget(1.0)) for m in (method(labels=labels), method()))
    assert plan.epsilon() <= 1.0 + 1e-9 and set(plan.crossings) == {EMBEDDING, "labels"}
    ratio = plan.crossings[EMBEDDING].mechanism.multiplier / whole.crossings[EMBEDDING].mechanism.multiplier
    assert ratio == pytest.approx(0.9**-0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DPHP(order=99, members=9), r"groups \* \(order \+ 1\)\^members up to a million.*members=9"),
        (lambda: DPSWD(slices=10**5, bins=11), r"slices \* bins up to a million.*slices=100000, bins=11"),
        (lambda: PEARL(width=12), r"Expected width from 8, up to 1e\+06, a multiple of 8, found width=12\."),
        (lambda: DPNTK(gain=float("nan")), r"Expected gain above 0, below 1e\+06, found gain=nan\."),
    ],
)
def test_refusals_name_what_was_expected_and_found(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
