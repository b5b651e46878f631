"""DPAF: its plan, its game, the three errors of its paper as small counterexamples, and the printed procedure."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from sfumato import DPAF, Budget, DataSpec, InputError, Relation, Run, audit, load
from sfumato.accounting import accountant
from sfumato.accounting.budget_split import multipliers, parse_split
from sfumato.accounting.claims import dpaf as by_paper
from sfumato.accounting.events import Event
from sfumato.data.public import PublicImages
from sfumato.engine.gradients.per_example import per_example
from sfumato.methods.gan.dpaf.aggregation import normalised
from sfumato.methods.gan.dpaf.dpaf import DPAFStep
from sfumato.methods.gan.dpaf.generator import MirrorGenerator, smoothed
from sfumato.methods.gan.dpaf.printed import NOISELESS, STAMP, Algorithm1, Ingredients, Printed, claimed_noise, printed
from sfumato.networks import load_generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.types import Images
from tests.cli.test_cli import call
from tests.made_up import arrays

FACES = DataSpec("faces", 182_637, (3, 64, 64), ("no", "yes"))
TINY = {"batch": 10, "mu": 2, "critic_width": 2, "features": 4, "width": 2, "latent": 4, "hidden": 4}
SMALL = DataSpec("arrays", 60, (1, 8, 8), ("0", "1", "2"))


def learn(method, data, spec, budget, public=None):
    plan = method.plan(spec, budget)
    odometer = Odometer(plan)
    return method.learn(Barrier(data, spec, odometer), Run(device="cpu"), public), odometer


# The plan


@pytest.mark.parametrize(
    ("epsilon", "epochs", "wanted"), [(1, 1.0, 0.733), (1, 5.0, 0.839), (10, 1.0, 0.390), (10, 5.0, 0.446)]
)
def test_the_multiplier_is_that_of_the_reference(epsilon, epochs, wanted):
    plan = DPAF(epochs=epochs).plan(FACES, Budget(epsilon))
    assert plan.facts["multiplier"] == pytest.approx(wanted, abs=0.004)
    assert plan.facts["layout"] == "C2-C2-C1" and plan.facts["sum_bound"] == 64.0
    assert plan.crossings["aggregate"].times // 8 == plan.crossings["conv2"].times
    assert plan.crossings["conv2"].sampler.rate == pytest.approx(8 * plan.crossings["aggregate"].sampler.rate)
    assert plan.paper["note"].count("unsound") == 1


def test_the_command_line_shows_it():
    line = "plan --method dpaf --records 182637 --shape 3x64x64 --classes 2 --epsilon 1 --set epochs=1 --json"
    status, out, _ = call(*line.split(), "--labels", "uniform")
    shown = json.loads(out)
    assert status == 0 and round(shown["multiplier"], 2) == 0.73
    assert [c["name"] for c in shown["crossings"]] == ["conv2", "aggregate"]


def test_a_split_gives_each_part_its_noise():
    plan = DPAF(epochs=1.0, split="0.1,x,0.1", conv1="private").plan(FACES, Budget(1))
    found = plan.facts["multipliers"]
    assert list(found) == ["conv1", "conv2", "aggregate"] and "multiplier" not in plan.facts
    assert found["conv2"] < found["aggregate"] and found["conv2"] < found["conv1"]
    assert 0.99 < plan.epsilon() <= 1
    even = DPAF(epochs=1.0, split="x,0.2").plan(FACES, Budget(1))
    assert list(even.facts["multipliers"]) == ["conv2", "aggregate"]
    assert even.facts["multipliers"]["aggregate"] < found["aggregate"]


def test_splits_are_read():
    assert parse_split("33%,34%,33%", 10.0, 3) == (3.3, 3.4, 3.3)
    assert parse_split("(0.1, ×, 0.1)", 10.0, 3) == (0.1, 9.8, 0.1)
    assert parse_split("equal", 1.0, 3) is None
    for text in ("0.1,0.2", "50%,60%,10%", "x,x,0.1", "0.5,x,0.5", "a,b,c", "", "-0.1,x,0.1", "nan,x,0.1"):
        with pytest.raises(ValueError, match="Expected"):
            parse_split(text, 1.0, 3)


def test_a_part_alone_spends_its_epsilon():
    event = Event("gaussian", 1.0, 1.0, 1.0, Relation.ADD_REMOVE, rate=0.01, times=100)
    z = multipliers({"a": event}, [0.5], 1e-5)["a"]
    alone = Event("gaussian", z, 1.0, 1.0, Relation.ADD_REMOVE, rate=0.01, times=100)
    assert 0.2 < accountant.epsilon([alone], 1e-5) <= 0.5  # Renyi DP is loose where there is little noise


@pytest.mark.parametrize(
    "changes",
    [
        {"conv1": "frozen"},
        {"mu": 0},
        {"keep": 0.0},
        {"keep": 1.1},
        {"batch": 1},
        {"layout": "C2"},
        {"activation": "relu"},
        {"public_generator": True},
        {"layout": "x-C2-x", "conv1": "private"},
        {"learning_rate": 0.0},
        {"mismatch": True, "classwise": True},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match="Expected"):
        DPAF(**changes)


def test_what_does_not_fit_the_data_is_refused_before_anything_is_spent():
    one = DataSpec("one", 600, (1, 8, 8), ("all",))
    for method, spec in (
        (DPAF(layout="C3-C3-C1"), SMALL),
        (DPAF(split="x,0.1,0.1"), SMALL),
        (DPAF(mu=50), SMALL),
        (DPAF(conv1="private", **TINY), one),
        (DPAF(mismatch=True, **TINY), one),
    ):
        with pytest.raises(InputError, match="Expected"):
            method.plan(spec, Budget(1))


# The game


@pytest.mark.parametrize(
    "more",
    [
        {"conv1": "private", "classwise": True, "split": "0.1,x,0.1"},
        {"conv1": "public", "public_steps": 2, "together": True, "keep": 1.0},
        {"public_steps": 1, "public_generator": True, "activation": "tanh", "relative": False},
        {"activation": "wave"},
        {"conv1": "game", "split": "0.1,x,0.1", "keep": 0.2, "signs": True},
        {"layout": "x-C2-x", "bfloat16": True},
        {"mismatch": True, "conv1": "game", "matching": 1.0, "replay": 2},
        {"mismatch": True, "together": True, "public_steps": 2},
    ],
)
def test_every_way_uses_what_it_declares(more):
    pixels, labels = arrays()
    public = PublicImages(Images(pixels[:, None], labels, ("0", "1", "2")), "made up")
    net, odometer = learn(DPAF(epochs=1.0, **TINY, **more), load(arrays()), SMALL, Budget(2), public)
    assert odometer.complete and all(torch.isfinite(p).all() for p in net.state_dict().values())
    assert net.sample(5).pixels.shape == (5, 1, 8, 8)


@pytest.mark.parametrize("more", [{"conv1": "public"}, {"public_steps": 1}])
def test_public_images_are_asked_for(more):
    with pytest.raises(InputError, match="public"):
        learn(DPAF(epochs=1.0, **TINY, **more), None, SMALL, Budget(2))


def test_without_data_conv1_stays_as_it_was_drawn_and_conv2_moves():
    method, seen = DPAF(epochs=1.0, critic_learning_rate=0.01, **TINY), []
    plan = method.plan(SMALL, Budget(2))

    class Look(Barrier):
        def release(self, name, query, *public):
            if name == "conv2":
                seen.append({k: v.clone() for k, v in query.net.state_dict().items()})
            return super().release(name, query, *public)

    method.learn(Look(None, SMALL, Odometer(plan)), Run(device="cpu"))
    moved = {k for k in seen[0] if not torch.equal(seen[0][k], seen[-1][k])}
    assert len(seen) == 3 and moved == {k for k in seen[0] if k.startswith("conv2")}


def test_in_the_game_conv1_learns_from_a_sample_and_noise_of_its_own():
    method, asked = DPAF(epochs=1.0, conv1="game", critic_learning_rate=0.01, **TINY), []
    plan = method.plan(SMALL, Budget(2))
    assert list(plan.crossings) == ["conv1", "conv2", "aggregate"]
    assert plan.crossings["conv1"].times == plan.crossings["conv2"].times == 3

    class Look(Barrier):
        def release(self, name, query, *public):
            asked.append((name, {k: v.clone() for k, v in query.net.state_dict().items()} if name == "conv1" else {}))
            return super().release(name, query, *public)

    method.learn(Look(None, SMALL, Odometer(plan)), Run(device="cpu"))
    seen = [weights for name, weights in asked if name == "conv1"]
    moved = {k for k in seen[0] if not torch.equal(seen[0][k], seen[-1][k])}
    assert len(seen) == 3 and moved == set(seen[0])  # its own layers, and conv2* as it is by then
    assert [name for name, _ in asked[:4]] == ["aggregate", "conv2", "conv1", "aggregate"]


def blobs(count=2000):
    random = np.random.default_rng(0)
    labels, images = random.integers(0, 2, count), np.full((count, 1, 8, 8), 20.0)
    images[labels == 0, :, :, :4] = 200
    images[labels == 1, :, :, 4:] = 200
    return np.clip(images + random.normal(0, 10, images.shape), 0, 255).astype(np.uint8), labels


def test_it_learns_what_images_look_like():
    """Noise and sampling have no seed, and a short run of two players may end anywhere, so there are six tries.

    Of 36 runs 4 ended below 75 and none below 57; all six do so once in a million times. Without a signal (epsilon
    0.05) runs end at 25, give or take 15: one in hundreds of tests would pass then.
    """
    pixels, labels = blobs()
    method = DPAF(
        epochs=6.0,
        batch=64,
        mu=4,
        critic_width=8,
        features=16,
        width=8,
        latent=8,
        hidden=32,
        learning_rate=1e-2,
        critic_learning_rate=1e-2,
        keep=1.0,
        together=True,
        replay=4,
        ema_decay=0.9,
    )

    def left_less_right() -> float:
        data = load((pixels[labels == 0], labels[labels == 0]))
        made = learn(method, data, data.spec, Budget(100))[0].sample(50, seed=1).pixels[:, 0]
        return float(made[:, :, :4].mean() - made[:, :, 4:].mean())

    assert any(left_less_right() > 75 for _ in range(6))


@pytest.mark.slow
def test_it_learns_which_class_is_bright_where():
    data = load(blobs(4000))
    method = DPAF(
        epochs=10.0,
        batch=64,
        mu=4,
        critic_width=8,
        features=16,
        width=8,
        latent=8,
        hidden=32,
        learning_rate=2e-3,
        critic_learning_rate=2e-3,
        classwise=True,
        replay=4,
        ema_decay=0.9,
    )
    made = learn(method, data, data.spec, Budget(50))[0].sample(100, seed=1)
    sides = made.pixels[:, 0, :, :4].mean((1, 2)) - made.pixels[:, 0, :, 4:].mean((1, 2))
    assert sides[made.labels == 0].mean() > 60 and sides[made.labels == 1].mean() < -60


def test_large_images_go_through():
    spec = DataSpec("large", 40, (3, 128, 128), ("no", "yes"))
    random = np.random.default_rng(0)
    data = load((random.integers(0, 256, (40, 3, 128, 128), dtype=np.uint8), random.integers(0, 2, 40)))
    method = DPAF(epochs=0.5, **TINY)
    assert method.plan(spec, Budget(5)).facts["layout"] == "C3-C1-x"
    net, odometer = learn(method, data, spec, Budget(5))
    assert odometer.complete and net.sample(2).pixels.shape == (2, 3, 128, 128)


def test_more_moves_ask_no_more_and_change_the_generator():
    nets = []
    for moves in (1, 3):
        net, odometer = learn(DPAF(**TINY, epochs=0.5, moves=moves, fakes=6), load(arrays()), SMALL, Budget(5.0))
        assert odometer.used == {"aggregate": 3, "conv2": 1}
        nets.append(torch.cat([p.flatten() for p in net.parameters()]))
    assert not torch.equal(*nets)


def test_what_matching_costs_is_a_mean_over_pairs_of_different_images():
    method = DPAF(**TINY, matching=2.0, fakes=6)
    players = method.players(SMALL, Run(device="cpu"), None)
    step, critic = DPAFStep(method, method.config(SMALL), players), players.critic
    images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 3
    target = torch.randn(1, *critic.lower.shape)
    step.aggregates = target[None]
    with torch.no_grad():
        found, terms = step.distance(images, labels), normalised(critic.lower(images, labels)).flatten(1)
    pairs = sum(float(terms[i] @ terms[j]) for i in range(6) for j in range(6) if i != j) / 30
    own = float(terms.square().sum(1).mean()) / 30  # what is left of an image with itself: a constant
    wanted = pairs - 2 * float(terms.mean(0) @ target.flatten())
    assert float(found) == pytest.approx(2.0 * (wanted + 6 * own) / terms.shape[1], rel=1e-4)


def test_the_latest_aggregates_are_remembered():
    method = DPAF(**TINY, replay=2)
    step = DPAFStep(method, method.config(SMALL), method.players(SMALL, Run(device="cpu"), None))
    shape = step.critic.lower.shape
    for value in range(4):
        rows = step.remember(torch.full(shape, 10.0 * value, dtype=torch.float64))  # ten records are expected
    assert rows.shape == (2, 1, *shape) and rows[:, 0, 0, 0, 0].tolist() == [2.0, 3.0]
    step.forget()
    assert len(step.remember(torch.zeros(shape))) == 1


def test_other_labels_ask_for_the_noise_of_twice_as_many_maps():
    plans = [DPAF(mismatch=mismatch).plan(FACES, Budget(1)) for mismatch in (False, True)]
    alone, both = (plan.facts["sum_bound"] for plan in plans)
    noises = [plan.facts["multiplier"] for plan in plans]
    assert both == pytest.approx(2**0.5 * alone) and noises[0] == pytest.approx(noises[1], rel=1e-6)
    assert plans[0].crossings["conv2"].bound == plans[1].crossings["conv2"].bound


@pytest.mark.parametrize("sums", [True, False])
def test_with_records_under_other_labels_the_discriminator_heeds_labels(sums):
    # The generator stands still and has learned each class but for its label, which alone tells its images apart.
    pixels, labels = (torch.from_numpy(part) for part in blobs(256))
    records = pixels.float() / 255, labels.long()
    fakes = records[0].roll(1, 0), records[1].roll(1, 0)
    told = []
    for mismatch in (False, True):
        method = DPAF(**TINY | {"features": 8, "critic_learning_rate": 1e-2}, mismatch=mismatch, embedding=True)
        left_out = "transfer, clipping, noise" + ("" if sums else ", sums, sin")
        game = Algorithm1(method, PUBLIC, Run(device="cpu"), public_blobs().images, Ingredients.without(left_out))
        for _ in range(60):
            game.upper_step(records, fakes, 0.0)
            game.lower_step(records, fakes, 0.0)
        with torch.no_grad():
            own, other = (game.critic.upper(game.judged((records[0], y)), y) for y in (records[1], 1 - records[1]))
        told.append(float(own.mean() - other.mean()))
    assert told[1] > 2 and told[1] > 4 * abs(told[0])


@pytest.mark.parametrize("more", [{"conv1": "private"}, {"conv1": "game"}, {"mismatch": True, "classwise": False}])
def test_the_audit_passes(more):
    report = audit.check(DPAF(epochs=1.0, **{"classwise": True, **more}, **TINY))
    assert report.verdict == "pass", [row for row in report.rows if not row.ok]


def test_the_generator_mirrors_and_comes_back():
    net = MirrorGenerator((3, 28, 20), ("a", "b"), latent=4, width=2, layers=4, smooth=2)
    net.settle(torch.Generator().manual_seed(0), batches=2, size=16)
    again = load_generator(net.config(), net.state_dict())
    one, two = (n.eval().sample(3, seed=2).pixels for n in (net, again))
    assert np.array_equal(one, two) and one.shape == (3, 3, 28, 20)


def test_smoothing_takes_the_finest_grain_and_keeps_the_mean():
    grain = (torch.arange(8)[:, None] + torch.arange(8)[None]) % 2 * 1.0
    soft = smoothed(grain[None, None], 1)[0, 0]
    assert torch.allclose(soft[1:-1, 1:-1], torch.full((6, 6), 0.5))  # a chessboard is gone
    flat = torch.full((1, 3, 5, 5), 0.3)
    assert torch.allclose(smoothed(flat, 3), flat) and smoothed(flat, 0) is flat
    net = MirrorGenerator((1, 8, 8), ("a", "b"), latent=4, width=2, layers=2, smooth=2)
    z, labels = torch.randn(5, 4), torch.arange(5) % 2
    made = net(z, labels)
    net.smooth = 0
    assert torch.allclose(made, smoothed(net(z, labels), 2))


# The three errors of the paper, as small as they get


def test_error_one_layers_without_noise_carry_a_record_into_steps_without_it():
    u, batch = 1.0, 64

    def second_step(target):
        tail, head = torch.tensor(0.01), torch.tensor(1.0)  # the tail learns by plain steps, the head by clipped ones
        first = torch.cat([torch.zeros(batch - 1), torch.tensor([target])])
        tail = tail - (head * first).mean()  # loss = tail * head * x
        second = torch.full((batch,), 1e6)  # the target is not among them
        return (tail * second).clamp(-u, u).sum()

    assert abs(second_step(0.0) - second_step(100.0)) == 128 * u  # claimed: u for the whole step


def test_error_two_through_the_true_sum_every_clipped_gradient_turns():
    u, weight = 1.0, nn.Linear(1, 1, bias=False)
    nn.init.ones_(weight.weight)
    offsets = torch.full((65, 1, 1, 1), -1 - 0.5 / 64)
    offsets[-1] = 0.0  # the target

    def features(net, images):
        return net(torch.ones(len(images), 1))[:, 0] + images.flatten()

    def moved(direction):
        loss = lambda net, images, labels, v: v * features(net, images)  # noqa: E731
        query, labels = per_example(weight, loss, clip=u), torch.zeros(65, dtype=torch.long)
        with torch.no_grad():
            totals = [query.total(offsets[:n], labels[:n], 1e3 * direction(offsets[:n])) for n in (64, 65)]
        return float((totals[0] - totals[1]).abs())

    # The loss is half the squared sum, so that its slope is the sum itself.
    true_sum = lambda images: features(weight, images).sum().detach()  # noqa: E731
    assert moved(true_sum) == pytest.approx(129 * u, rel=1e-4)
    assert moved(lambda images: torch.tensor(-0.5)) == pytest.approx(u, rel=1e-4)  # a released sum: the same for both


def test_error_three_batches_used_twice_cost_more_than_two_batches():
    z, rate, times = 1.0, 0.01, 200

    def spent(*events):
        made = [Event("gaussian", sigma, 1.0, 1.0, Relation.ADD_REMOVE, rate=rate, times=times) for sigma in events]
        return accountant.epsilon(made, 1e-5)

    together = (2 * z**-2) ** -0.5  # both answers about one batch: one Gaussian
    assert spent(together) > 1.2 * spent(z, z)


# The printed procedure


def public_blobs(count=80):
    pixels, labels = blobs(count)
    return PublicImages(Images(pixels, labels, ("left", "right")), "made up")


def test_the_printed_step_is_moved_by_more_than_it_claims():
    method = DPAF(**{**TINY, "hidden": 2, "clip": 1e-6, "keep": 1.0, "layout": "C1-C1-x"})
    spec = DataSpec("blobs", 80, (1, 8, 8), ("left", "right"), public=True)
    game = Algorithm1(method, spec, Run(device="cpu"), public_blobs().images)
    query, lower, fc = game.conv2.query, game.critic.lower, game.critic.upper.fc
    random = torch.Generator().manual_seed(0)
    images = torch.rand(2, 1, 8, 8, generator=random)[torch.tensor([0] * 64 + [1])]
    labels, fakes = torch.zeros(65, dtype=torch.long), (torch.rand(4, 1, 8, 8, generator=random), torch.zeros(4).long())
    with torch.no_grad():
        one, two = normalised(lower(images, labels)).flatten(1)[[0, -1]]
        # Two hidden units look the way from the others to the target; the second bends between 64 and 65 records.
        fc[0].weight.copy_((two - one).expand(2, -1))
        fc[0].bias.copy_(torch.tensor([20.0, -float((two - one) @ (one + (two - one) / 130))]))
        fc[2].weight.copy_(torch.tensor([[0.6, -1.0]]))
        fc[2].bias.fill_(-12.0)
    totals = []
    for n in (64, 65):
        slope, _ = game.slopes((images[:n], labels[:n]), fakes)
        with torch.no_grad():
            totals.append(query.total(images[:n], labels[:n], slope / slope.norm()))
    u = query.bound.norm
    assert float((totals[0] - totals[1]).norm()) / u == pytest.approx(128, abs=1.1)  # claimed: 1


def test_theorem_six_has_a_floor():
    claims = [by_paper([(4687, 64 / 60_000, z)])["epsilon"] for z in (1.0, 1e2, 1e8)]
    assert claims[0] > claims[1] > claims[2] > 0.12  # no noise at all would be enough for 0.1
    spec, public = DataSpec("blobs", 80, (1, 8, 8), ("left", "right"), public=True), public_blobs()
    with pytest.raises(InputError, match="which no noise does"):
        uneven = DPAF(epochs=1.0, split="0.05,x,20", **TINY)
        printed(uneven, public, spec, Run(device="cpu"), epsilons=(0.05, 30.0, 20.0))


def test_as_printed_it_runs_on_public_sets_alone_and_is_stamped():
    method, public = DPAF(epochs=1.0, **TINY), public_blobs()
    given = {"epsilons": (20.0, 30.0, 20.0), "count": 6}
    private = DataSpec("blobs", 80, (1, 8, 8), ("left", "right"))
    with pytest.raises(InputError, match="not private"):
        printed(method, public, private, Run(device="cpu"), **given)
    made = printed(
        method, public, DataSpec("blobs", 80, (1, 8, 8), ("left", "right"), public=True), Run(device="cpu"), **given
    )
    assert isinstance(made, Printed) and made.stamp == STAMP == "not private: the paper's accounting does not hold"
    assert made.images.pixels.shape == (6, 1, 8, 8) and "unsound" in made.paper["note"]
    assert not hasattr(made, "save") and 20 < made.paper["epsilon"] <= 70


PUBLIC = DataSpec("blobs", 80, (1, 8, 8), ("left", "right"), public=True)


def test_theorem_six_claims_what_was_asked_for():
    parts = [(90, 0.01), (11, 0.08), (90, 0.01)]
    for equal in (False, True):
        noise = claimed_noise(parts, (2.0, 3.0, 2.0), 1e-5, equal)
        claimed = by_paper([(t, q, z) for (t, q), z in zip(parts, noise, strict=True)])["epsilon"]
        assert 6.9 < claimed <= 7.0 and (len(set(noise)) == 1) is equal


@pytest.mark.parametrize("left_out", ["noise", "clipping, noise", "sums,sin,transfer,clipping,noise"])
def test_without_noise_it_claims_nothing_and_says_so(left_out):
    made = printed(
        DPAF(epochs=1.0, **TINY),
        public_blobs(),
        PUBLIC,
        Run(device="cpu"),
        epsilons=(1e-9, 1e-9, 1e-9),  # asked of nobody
        count=4,
        ingredients=Ingredients.without(left_out),
    )
    assert made.paper is None and made.stamp == NOISELESS == "not private: no noise was added"
    private = DataSpec("blobs", 80, (1, 8, 8), ("left", "right"))
    with pytest.raises(InputError, match="not private"):
        printed(DPAF(), public_blobs(), private, Run(), epsilons=(1, 1, 1), ingredients=Ingredients.without(left_out))


@pytest.mark.parametrize("text", ["clipping", "sums, noise", "sin", "transfer, noise", "labels"])
def test_ingredients_that_make_no_sense_are_refused(text):
    with pytest.raises(InputError, match="Expected"):
        Ingredients.without(text)


def test_line_15_rewards_the_mean_image():
    """A judge that was shown means alone ranks one image, drawn again and again, above the records themselves."""
    random = torch.Generator().manual_seed(0)
    game = Algorithm1(DPAF(**{**TINY, "layout": "C1-C1-x"}), PUBLIC, Run(device="cpu"), public_blobs().images)
    features = torch.randn(400, *game.critic.lower.shape, generator=random) + 0.5
    features = features / features.flatten(1).norm(dim=1)[:, None, None, None]
    nobody = torch.zeros(1).long()
    optimiser = torch.optim.Adam(game.critic.upper.parameters(), lr=0.01)
    for _ in range(200):
        real = features[torch.randint(400, (64,), generator=random)].mean(0, keepdim=True)
        fake = torch.randn(64, *features.shape[1:], generator=random).mean(0, keepdim=True)
        optimiser.zero_grad()
        game.loss(real, (real, nobody), fake, (fake, nobody)).backward()
        optimiser.step()
    mean = features.mean(0, keepdim=True)
    with torch.no_grad():
        single = game.critic.upper(features, nobody.expand(400))
        alike = game.critic.upper(mean / mean.norm(), nobody)  # as long as a record's
    assert (single < alike).double().mean() > 0.95


def test_plain_and_clipped_steps_agree_where_nothing_is_clipped():
    wide = {**TINY, "clip": 1e6, "keep": 1.0, "layout": "C1-C1-x"}
    images = public_blobs().images
    moved = []
    for left_out in ("noise", "clipping, noise"):
        game = Algorithm1(DPAF(**wide), PUBLIC, Run(device="cpu"), images, Ingredients.without(left_out))
        records = torch.from_numpy(images.pixels[:20]).float() / 255, torch.from_numpy(images.labels[:20]).long()
        game.lower_step(records, (records[0].flip(0) / 2, records[1]), 0.0)
        moved.append(torch.cat([p.grad.flatten() for p in game.critic.lower.conv2.parameters()]))
    assert moved[0].norm() > 0 and (moved[0] - moved[1]).norm() < 1e-3 * moved[0].norm()


@pytest.mark.parametrize(("follow", "wanted"), [(False, [2, 5]), (True, [0, 3, 6])])
def test_the_generator_follows_conv2_or_not(follow, wanted):
    turns = DPAF(critic_steps=3, follow=follow, **TINY).players(SMALL, Run(device="cpu"), None).turns
    moved = []
    for t in range(7):
        if turns.due():
            turns.moved(0.5)
            moved.append(t)
    assert moved == wanted


def test_thinned_fakes_are_as_many_by_chance_as_records():
    method = DPAF(thin=True, fakes=40, **TINY)
    config = method.config(SMALL)
    step = DPAFStep(method, config, method.players(SMALL, Run(device="cpu"), None))
    fakes = torch.rand(1, 1, 8, 8).expand(40, -1, -1, -1), torch.zeros(40, dtype=torch.long)
    whole = step.critic.means(*fakes)
    seen = [step._noisy_means(whole[None], fakes, Run(device="cpu"), n)[0] / whole for n in range(200)]
    sizes = torch.stack([s[whole.abs() > 1e-3].median() for s in seen]) * config.batch
    assert torch.allclose(sizes, sizes.round(), atol=1e-2) and 9 < sizes.mean() < 11 and 2 < sizes.std() < 3.5
    with pytest.raises(ValueError, match="Expected fakes"):
        DPAF(thin=True, fakes=8, batch=10)


def test_to_a_unit_judge_the_size_of_a_sum_tells_nothing():
    critic = DPAF(unit=True, **TINY).players(SMALL, Run(device="cpu"), None).critic
    sums = torch.randn(1, 1, *critic.lower.shape)
    assert torch.allclose(critic.judge(sums), critic.judge(1.7 * sums), atol=1e-5)


def test_a_rate_of_its_own_moves_conv2():
    players = DPAF(conv2_learning_rate=0.01, **TINY).players(SMALL, Run(device="cpu"), None)
    lower, upper = players.critic_optimiser.param_groups
    assert (lower["lr"], upper["lr"]) == (0.01, 2e-4)
    assert len(lower["params"]) == len(list(players.critic.lower.parameters()))
