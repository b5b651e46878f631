"""Clipped sums of gradients: the same by every way, bounded for every example, whatever the others are."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from sfumato.engine.gradients import per_example as engine
from sfumato.engine.gradients.clipping import Automatic, Flat, PerLayer, QuantileClip
from sfumato.engine.gradients.per_example import assign, per_example, slack
from sfumato.engine.gradients.topk import TopK
from sfumato.errors import InputError
from sfumato.privacy.bounds import BoundedSum, IntegerBound

WAYS = ("ghost", "vmap", "loop")


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 12),
        nn.Tanh(),
        nn.Linear(12, 4),
    )


def loss(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(net(images), labels, reduction="none")


def batch(count: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, 8, 8, generator=random), torch.randint(0, 4, (count,), generator=random)


def away(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize(
    "clip",
    [Flat(1.0), Flat(1.0, 2.0), PerLayer(1.0), Automatic(1.0), TopK(1.0, 0.7), TopK(1.0, 0.4, by="count")],
    ids=lambda c: type(c).__name__,
)
def test_ways_agree_for_every_clip(clip):
    images, labels = batch(7)
    exact = per_example(cnn(), loss, clip, way="loop").rows(images, labels)
    for way in ("ghost", "vmap"):
        query = per_example(cnn(), loss, clip, way=way)
        assert away(query.rows(images, labels), exact) < 1e-5
        assert away(query.total(images, labels), exact.sum(0)) < 1e-5
        assert query.total(images, labels).dtype == torch.float64


@pytest.mark.parametrize("clip", [Flat(0.3), PerLayer(0.3), Automatic(0.3), TopK(0.3, 0.6)])
def test_one_example_never_exceeds_the_bound(clip):
    images, labels = batch(24)
    query = per_example(cnn(), lambda net, x, y: 10 ** x[:, 0, 0, 0].mul(12).sub(6) * loss(net, x, y), clip)
    alone = torch.stack([query.total(images[i : i + 1], labels[i : i + 1]) for i in range(24)]).norm(dim=1)
    assert float(alone.max()) <= query.bound.norm * (1 + slack(1))
    assert float(query.rows(images, labels).norm(dim=1).max()) <= query.bound.norm * (1 + 1e-12)
    assert float(alone.max()) > 0.8 * query.bound.norm


@pytest.mark.parametrize("way", WAYS)
def test_microbatches_of_any_size_give_the_same_sum(way):
    images, labels = batch(64 if way != "loop" else 12)
    query = per_example(cnn(), loss, 0.5, way=way)
    whole = query.total(images, labels)
    for size in (1, 5, 8, 64):
        parts = sum(query.total(x, y) for x, y in zip(images.split(size), labels.split(size), strict=True))
        assert away(parts, whole) < 1e-6


def test_one_example_moves_the_sum_by_no_more_than_the_bound():
    images, labels = batch(64)
    query = per_example(cnn(), lambda net, x, y: 1e3 * loss(net, x, y), 0.5, way="ghost")
    whole = query.total(images, labels)
    for i in range(0, 64, 9):
        rest = torch.arange(64) != i
        assert float((whole - query.total(images[rest], labels[rest])).norm()) <= 0.5 * (1 + slack(64))


@pytest.mark.parametrize("count", [128, pytest.param(2048, marks=pytest.mark.slow)])
def test_the_slack_covers_rounding_where_all_gradients_agree(count):
    images, labels = batch(count)
    images, labels = images[:1] + 1e-3 * images, labels[:1].expand(count)
    query = per_example(cnn(), lambda net, x, y: 1e3 * loss(net, x, y), 1.0, way="ghost")
    whole = query.total(images, labels)
    assert float(whole.norm()) > 0.9 * count
    for i in (0, count // 2, count - 1):
        rest = torch.arange(count) != i
        moved = whole - query.total(images[rest], labels[rest]) - query.rows(images[i : i + 1], labels[i : i + 1])[0]
        assert float(moved.norm()) <= slack(count)


def test_a_missing_example_leaves_the_gradients_of_the_others_as_they_are():
    images, labels = batch(33)
    query = per_example(cnn(), loss, 1.0)
    rows = query.rows(images, labels)
    for size in (1, 7, 32):  # to the last bits, which some processors round otherwise in another place of a batch
        torch.testing.assert_close(query.rows(images[-size:], labels[-size:]), rows[-size:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e25, 1e30])
def test_an_example_without_finite_gradient_counts_as_zero_and_harms_no_other(way, value):
    images, labels = batch(6)
    query = per_example(cnn(), lambda net, x, y: loss(net, x, y) * x.amax((1, 2, 3)) ** 2, 0.5, way=way)
    clean = query.total(images[1:], labels[1:])
    images[0] = value
    assert away(query.total(images, labels), clean) < 1e-6
    assert query.rows(images, labels)[0].norm() == 0


@pytest.mark.parametrize("clip", [Flat(0.5), PerLayer(0.5)], ids=lambda c: type(c).__name__)
def test_a_device_that_is_not_waited_for_gives_the_same(clip, monkeypatch):
    images, labels = batch(40)
    query = per_example(cnn(), lambda net, x, y: loss(net, x, y) * x.amax((1, 2, 3)) ** 2, clip, way="ghost")
    clean, without = query.total(images, labels), query.total(images[1:], labels[1:])
    monkeypatch.setattr(engine, "AT_ONCE", ())
    assert torch.equal(query.total(images, labels), clean)
    for value in (math.nan, math.inf, -math.inf, 1e30):
        images[0] = value
        assert away(query.total(images, labels), without) < 1e-6


def test_what_is_no_number_stays_in_the_images_of_the_caller(monkeypatch):
    monkeypatch.setattr(engine, "AT_ONCE", ())
    images, labels = batch(4)
    images[0] = math.inf
    query = per_example(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), loss, 0.5, way="ghost")
    assert torch.isfinite(query.total(images, labels)).all()
    assert torch.isinf(images[0]).all()


def test_calls_are_few():
    # On a GPU they, not the sums, would take the time.
    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    net, (images, labels) = cnn(), batch(32)
    query = per_example(net, loss, 0.5, way="ghost")
    query.total(images, labels)
    with Count() as ours:
        query.total(images, labels)
    with Count() as plain:
        torch.autograd.grad(loss(net, images, labels).sum(), list(net.parameters()))
    assert ours.calls <= plain.calls + 30 * len(query.layers)


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_batch_gives_zeros(way):
    query = per_example(cnn(), loss, 0.5, way=way)
    images, labels = batch(0)
    assert query.total(images, labels).shape == query.shape == query.answer_shape(4)
    assert query.norms(images, labels).shape == (0,)
    assert query.total(images, labels).abs().max() == 0 and query.rows(images, labels).shape == (0, *query.shape)


# Losses with inner gradients (privacy.md 2.11: the penalty belongs to the interpolate of that real record)


def penalised(net: nn.Module, images: Tensor, labels: Tensor, fakes: Tensor, along: Tensor) -> Tensor:
    between = along * images + (1 - along) * fakes
    slope = torch.func.grad(lambda x: net(x)[:, 0].sum())(between)
    return -net(images)[:, 0] + 10 * (slope.flatten(1).norm(dim=1) - 1) ** 2


def penalised_by_autograd(net: nn.Module, images: Tensor, labels: Tensor, fakes: Tensor, along: Tensor) -> Tensor:
    between = (along * images + (1 - along) * fakes).requires_grad_()
    (slope,) = torch.autograd.grad(net(between)[:, 0].sum(), between, create_graph=True)
    return -net(images)[:, 0] + 10 * (slope.flatten(1).norm(dim=1) - 1) ** 2


def critic() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 6, 3, 2), nn.GroupNorm(2, 6), nn.SiLU(), nn.Flatten(), nn.Linear(54, 1))


def partners(count: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    return torch.rand(count, 1, 8, 8, generator=random), torch.rand(count, 1, 1, 1, generator=random)


def by_hand(
    net: nn.Module, loss, clip: float, images: Tensor, labels: Tensor, drawn, noise_multiplicity: int = 1
) -> Tensor:
    total = 0.0
    for i in range(len(images)):
        same = slice(i * noise_multiplicity, (i + 1) * noise_multiplicity)
        x, y = images[i : i + 1].repeat(noise_multiplicity, 1, 1, 1), labels[i : i + 1].repeat(noise_multiplicity)
        slopes = torch.autograd.grad(
            loss(net, x, y, *(d[same] for d in drawn)).mean(), list(net.parameters()), materialize_grads=True
        )
        row = torch.cat([s.flatten() for s in slopes]).double()
        total = total + row * min(1, clip / float(row.norm()))
    return total


@pytest.mark.parametrize("written", [penalised, penalised_by_autograd])
@pytest.mark.parametrize("noise_multiplicity", [1, 3])
def test_a_gradient_penalty_equals_a_loop(written, noise_multiplicity):
    images, labels = batch(5)
    query = per_example(critic(), written, 2.0, noise_multiplicity=noise_multiplicity, draw=partners)
    exact = by_hand(critic(), written, 2.0, images, labels, partners(5 * noise_multiplicity), noise_multiplicity)
    assert away(query.total(images, labels), exact) < 1e-5


def test_a_gradient_penalty_alone_is_not_mistaken_for_an_ordinary_loss():
    # The layer is called once, but its weights reach the loss through the inner gradient.
    def penalty(net, images, labels):
        return torch.func.grad(lambda x: net(x)[:, 0].sum())(images).square().sum((1, 2, 3))

    with pytest.raises(InputError, match="ghost"):
        per_example(critic(), penalty, 2.0, way="ghost").total(*batch(5))
    exact = by_hand(critic(), penalty, 2.0, *batch(5), ())
    assert away(per_example(critic(), penalty, 2.0).total(*batch(5)), exact) < 1e-5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("noise_multiplicity", [1, 4])
def test_copies_are_averaged_before_clipping(way, noise_multiplicity):
    def noisy(net, images, labels, noise):
        return loss(net, images + 3 * noise, labels)

    def draw(count):
        return (torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(4)),)

    images, labels = batch(6)
    query = per_example(cnn(), noisy, 1.5, way=way, noise_multiplicity=noise_multiplicity, draw=draw)
    exact = by_hand(cnn(), noisy, 1.5, images, labels, draw(6 * noise_multiplicity), noise_multiplicity)
    assert away(query.total(images, labels), exact) < 1e-5


def test_public_arguments_reach_the_loss():
    query = per_example(cnn(), lambda net, x, y, scale: scale * loss(net, x, y), 1e6)
    assert away(query.total(*batch(4), 3.0), 3 * query.total(*batch(4), 1.0)) < 1e-5


def test_bfloat16_keeps_the_bound_and_is_near():
    images, labels = batch(32)
    rough, exact = (per_example(cnn(), loss, 0.5, way="ghost", bfloat16=half) for half in (True, False))
    assert 1e-6 < away(rough.total(images, labels), exact.total(images, labels)) < 0.05
    alone = [float(rough.total(images[i : i + 1], labels[i : i + 1]).norm()) for i in range(8)]
    assert max(alone) <= 0.5 * (1 + slack(1))


def test_images_in_float64_and_without_gradients_are_taken():
    with torch.no_grad():
        images, labels = batch(4)
        query = per_example(cnn(), loss, 0.5)
        assert away(query.total(images.double(), labels), query.total(images, labels)) < 1e-6
    assert all(p.grad is None for p in query.net.parameters())


def test_the_network_is_left_as_it_was():
    net = critic()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = torch.get_rng_state()
    per_example(net, loss, 0.5).total(*batch(4)[:1], torch.zeros(4, dtype=torch.long))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert not any(layer._forward_hooks for layer in net.modules())


def test_dropout_is_drawn_apart():
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 4))
    same = batch(1)[0].repeat(6, 1, 1, 1), torch.zeros(6, dtype=torch.long)
    for way in WAYS:
        assert per_example(net, loss, 1.0, way=way).rows(*same).std(0).max() > 0


def test_spectral_normalisation_is_a_function_of_weights_and_passes():
    torch.manual_seed(0)
    net = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 4, 3)), nn.Flatten(), nn.Linear(144, 4))
    alone = per_example(net, loss, 0.5).total(*batch(1)).norm().item()
    assert 0.1 < alone <= 0.5 * (1 + 1e-12)


def test_a_layer_put_back_into_training_mode_is_noticed():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 4)).eval()
    query = per_example(net, loss, 1.0)
    net[1].requires_grad_(False)
    assert float(query.total(*batch(3)).norm()) > 0
    net.train()
    with pytest.raises(InputError, match="BatchNorm2d"):
        query.total(*batch(3))


def test_a_layer_that_is_exchanged_later_is_noticed():
    net = cnn()
    query = per_example(net, loss, 1.0, way="ghost")
    query.total(*batch(3))
    net[1] = nn.BatchNorm2d(8)
    with pytest.raises(InputError, match="BatchNorm2d"):
        query.total(*batch(3))


class Mixing(nn.Module):
    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.layer, self.memory = nn.Linear(64, 4), memory
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.memory:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return self.layer(x - self.mean)
        return self.layer(x - x.mean(0))


def test_mixing_by_an_unknown_layer_is_found_by_behaviour():
    with pytest.raises(InputError, match="belongs to another"):
        per_example(Mixing(False), loss, 1.0, way="ghost").total(*batch(4))
    with pytest.raises(InputError, match="without memory"):
        per_example(Mixing(True), loss, 1.0).total(*batch(4))
    # By the other ways an example is a batch of its own, so there is nothing to mix with.
    images, labels = batch(4)
    query = per_example(Mixing(False), loss, 1.0)
    rows = query.rows(images, labels)
    images[0] = 0.5
    assert torch.equal(query.rows(images, labels)[1:], rows[1:])


def test_rows_of_others_do_not_move():
    images, labels = batch(6)
    query = per_example(cnn(), loss, 0.5)
    rows = query.rows(images, labels)
    images[2], labels[2] = 0.0, 3
    changed = query.rows(images, labels)
    assert torch.equal(changed[[0, 1, 3, 4, 5]], rows[[0, 1, 3, 4, 5]]) and not torch.equal(changed[2], rows[2])


def test_a_released_gradient_trains_with_any_optimiser():
    net, (images, labels) = cnn(), batch(64)
    query, optimiser = per_example(net, loss, 5.0), torch.optim.Adam(net.parameters(), 0.01)
    first = loss(net, images, labels).mean().item()
    for _ in range(30):
        assign(net, query.total(images, labels) / 64)
        optimiser.step()
    assert loss(net, images, labels).mean().item() < 0.5 * first


def test_votes_on_norms_make_a_bounded_sum():
    images, labels = batch(9)
    query = per_example(cnn(), loss, 1.0)
    state = QuantileClip(float(query.norms(images, labels).median()))
    votes = BoundedSum(lambda x, y: state.votes(query.norms(x, y)), IntegerBound(1, low=0), (1,))
    assert float(votes.bound.project(votes.rows(images, labels)).sum()) == 5


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="way"):
        per_example(cnn(), loss, 1.0, way="fast")
    with pytest.raises(InputError, match="trainable"):
        per_example(cnn().requires_grad_(False), loss, 1.0)
    with pytest.raises(InputError, match="one loss for each"):
        per_example(cnn(), lambda net, x, y: loss(net, x, y).mean(), 1.0).total(*batch(3))
    with pytest.raises(ValueError, match="norm"):
        per_example(cnn(), loss, 0.0)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_opacus_gives_the_same_rows():
    opacus = pytest.importorskip("opacus.grad_sample")
    images, labels = batch(6)
    net = cnn()
    query = per_example(net, loss, 1e9)
    wrapped = opacus.GradSampleModule(cnn(), loss_reduction="sum")
    loss(wrapped, images, labels).sum().backward()
    rows = torch.cat([p.grad_sample.flatten(1) for p in wrapped.parameters()], 1)
    assert away(query.rows(images, labels), rows.double()) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["ghost", "vmap"])
def test_a_gpu_gives_the_same(way):
    images, labels = batch(64)
    exact = per_example(cnn(), loss, 0.5, way="loop").total(images, labels)
    with torch.backends.cudnn.flags(allow_tf32=False):
        query = per_example(cnn().cuda(), loss, 0.5, way=way)
        assert away(query.total(images.cuda(), labels.cuda()).cpu(), exact) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("clip", [Flat(0.5), PerLayer(0.5), Automatic(0.5)], ids=lambda c: type(c).__name__)
def test_a_gpu_is_not_waited_for(clip):
    images, labels = (t.cuda() for t in batch(40))
    query = per_example(cnn().cuda(), loss, clip, way="ghost")
    first = query.total(images, labels)
    torch.cuda.set_sync_debug_mode("error")  # a wait raises
    try:
        second = query.total(images, labels)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert away(second.cpu(), first.cpu()) < 1e-5
