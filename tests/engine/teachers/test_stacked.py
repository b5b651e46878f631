"""Stacked critics against the same critics one by one."""

from __future__ import annotations

import dataclasses
import warnings
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.teachers import adam_of, ask, plain_of, teach
from sfumato.engine.teachers import stacked
from sfumato.engine.teachers.critics import Critics
from sfumato.engine.teachers.stacked import Stacked, chunk_for

SMALL = Critics((1, 28, 28), 10, 8, 32, teacher_batch=5)
CRITICS = [
    SMALL,
    Critics((3, 13, 10), 2, 8, 16, teacher_batch=6),
    Critics((1, 9, 9), 0, 4, 8, norm=False, teacher_batch=4),
    Critics((1, 9, 9), 3, 4, 8, norm=False, teacher_batch=4),
]


def block_of(critics: Critics, count: int = 3, dtype: torch.dtype = torch.float32, **tuning: int) -> Stacked:
    """Teachers with every weight off its start, so that none is tested at zero or one."""
    random = torch.Generator().manual_seed(0)
    weights = critics.start(count, random, "cpu")
    for w in weights.values():
        w += 0.02 * torch.randn(w.shape, generator=random)
    weights["dense"][:, critics.positions[2] * critics.maps[1] + critics.classes + 1 :] = 0
    block = Stacked(critics, {name: w.to(dtype) for name, w in weights.items()})
    block.tuning = dataclasses.replace(block.tuning, **tuning)
    return block


def data_for(critics: Critics, count: int = 3, fakes: int = 4, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    random, y = torch.Generator().manual_seed(1), max(1, critics.classes)
    images = torch.rand(count, critics.teacher_batch, *critics.shape, generator=random, dtype=torch.float64)
    made = torch.rand(fakes, *critics.shape, generator=random, dtype=torch.float64)
    labels = torch.randint(y, (count, critics.teacher_batch), generator=random)
    return [images.to(dtype), labels, made.to(dtype), torch.randint(y, (fakes,), generator=random)]


def parameters(block: Stacked, teacher: int) -> list[Tensor]:
    return [p.detach() for p in plain_of(block, teacher).parameters()]


@pytest.mark.parametrize("critics", CRITICS)
@pytest.mark.parametrize("align, tile", [(1, 2**26), (8, 2**26), (1, 1)])
def test_equal_to_plain_critics_in_double_precision(critics, align, tile):
    block = block_of(critics, dtype=torch.float64, align=align, tile=tile)
    images, labels, fakes, fake_labels = data_for(critics, dtype=torch.float64)
    nets = [plain_of(block, i) for i in range(3)]
    optimisers = [adam_of(net) for net in nets]
    for _ in range(3):
        scores, directions = block.scores(images, labels), block.directions(fakes, fake_labels)
        for i, net in enumerate(nets):
            torch.testing.assert_close(scores[i], net(images[i], labels[i]), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(directions[i], ask(net, fakes, fake_labels), rtol=1e-9, atol=1e-12)
            teach(net, optimisers[i], images[i], labels[i], fakes, fake_labels)
        block.update(images, labels, fakes, fake_labels)
    for i, net in enumerate(nets):
        for ours, theirs in zip(parameters(block, i), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def every_class(critics: Critics, fakes: int = 4) -> Tensor:
    """Fakes (m, classes, c, h, w)."""
    random = torch.Generator().manual_seed(2)
    return torch.rand(fakes, critics.classes, *critics.shape, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("tile", [2**26, 1])
def test_fakes_of_own_labels_are_what_a_plain_critic_would_be_shown(tile):
    block = block_of(SMALL, dtype=torch.float64, tile=tile)
    images, labels, *_ = data_for(SMALL, dtype=torch.float64)
    fakes = every_class(SMALL, 7)  # more latents than a teacher has draws
    own = labels[:, [0, 1, 2, 3, 4, 0, 1]]
    nets = [plain_of(block, i) for i in range(3)]
    for i, net in enumerate(nets):
        teach(
            net,
            adam_of(net),
            images[i],
            labels[i],
            torch.stack([f[y] for f, y in zip(fakes, own[i], strict=True)]),
            own[i],
        )
    block.update(images, labels, fakes)
    for i, net in enumerate(nets):
        for ours, theirs in zip(parameters(block, i), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_records_under_other_labels_are_fakes_too():
    critics = dataclasses.replace(SMALL, mismatch=True)
    block = block_of(critics, dtype=torch.float64)
    images, labels, fakes, fake_labels = data_for(critics, dtype=torch.float64)
    nets = [plain_of(block, i) for i in range(3)]
    for i, net in enumerate(nets):
        optimiser = adam_of(net)
        wrong = (labels[i] + 2) % 10  # one more than the number of the step
        of_fakes = [functional.softplus(net(*shown)).mean() for shown in ((fakes, fake_labels), (images[i], wrong))]
        (functional.softplus(-net(images[i], labels[i])).mean() + sum(of_fakes) / 2).backward()
        optimiser.step()
    block.update(images, labels, fakes, fake_labels)
    for i, net in enumerate(nets):
        for ours, theirs in zip(parameters(block, i), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_anothers_labels_choose_no_fakes_of_a_teacher():
    images, labels, *_ = data_for(SMALL, 4)
    fakes = every_class(SMALL).float()
    one, other = block_of(SMALL, 4), block_of(SMALL, 4)
    relabelled = labels.clone()
    relabelled[2] = (relabelled[2] + 1) % SMALL.classes
    one.update(images, labels, fakes)
    other.update(images, relabelled, fakes)
    for name, weights in one.weights.items():
        assert torch.equal(weights[[0, 1, 3]], other.weights[name][[0, 1, 3]])
    assert not torch.equal(one.weights["first_label"][2], other.weights["first_label"][2])


@pytest.mark.parametrize("critics", CRITICS)
def test_scores_and_directions_equal_plain_critics_in_single_precision(critics):
    block = block_of(critics)
    images, labels, fakes, fake_labels = data_for(critics, fakes=15)
    scores, directions = block.scores(images, labels), block.directions(fakes, fake_labels)
    for i in range(3):
        net = plain_of(block, i)
        expected = ask(net, fakes, fake_labels)
        assert (scores[i] - net(images[i], labels[i])).abs().max() < 1e-5
        assert (directions[i] - expected).norm() < 1e-5 * expected.norm()


def test_directions_lower_the_generators_loss():
    block = block_of(SMALL)
    _, _, fakes, labels = data_for(SMALL)
    move = block.directions(fakes, labels)
    for i in range(3):
        net = plain_of(block, i)
        before, after = (functional.softplus(-net(x, labels)).mean() for x in (fakes, fakes + move[i].view_as(fakes)))
        assert after < before


def test_updates_teach_a_teacher_to_tell_real_from_fake():
    block = SMALL.make(2, torch.Generator().manual_seed(0))
    images, labels, fakes, fake_labels = data_for(SMALL, 2)
    for _ in range(20):
        block.update(images / 2, labels, fakes, fake_labels)
    real, fake = block.scores(images / 2, labels), block.scores(fakes[None], fake_labels[None])
    assert (real.mean(1) > fake.mean(1) + 0.05).all()


@pytest.mark.parametrize("poison", [0.0, 1e30, float("nan"), float("inf")])
@pytest.mark.parametrize("critics", [SMALL, dataclasses.replace(SMALL, moments="bfloat16", precision="bfloat16")])
def test_a_teacher_never_feels_anothers_data(poison, critics):
    images, labels, fakes, fake_labels = data_for(critics, 4)
    one, other = block_of(critics, 4), block_of(critics, 4)
    changed, relabelled = images.clone(), labels.clone()
    changed[2], relabelled[2] = poison, 0
    for _ in range(3):
        one.update(images, labels, fakes, fake_labels)
        other.update(changed, relabelled, fakes, fake_labels)
    rest = [0, 1, 3]
    for name, tensor in one.state_dict().items():
        if name != "step":
            assert torch.equal(tensor[rest], other.state_dict()[name][rest]), name
    ours, theirs = one.directions(fakes, fake_labels), other.directions(fakes, fake_labels)
    assert torch.equal(ours[rest], theirs[rest]) and ours.isfinite().all()
    assert not torch.equal(ours[2], theirs[2])


@pytest.mark.parametrize("tile", [1, 2**23, 2**30])
def test_the_tile_only_bounds_memory(tile):
    whole, tiled = block_of(SMALL, 5), block_of(SMALL, 5, tile=tile)
    given = data_for(SMALL, 5)
    for block in (whole, tiled):
        block.update(*given)
    torch.testing.assert_close(tiled.directions(*given[2:]), whole.directions(*given[2:]), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("critics", [SMALL, dataclasses.replace(SMALL, moments="bfloat16")])
def test_a_block_goes_on_from_its_state(critics):
    given = data_for(critics)
    block = block_of(critics)
    block.update(*given)
    copy = critics.make(3, torch.Generator().manual_seed(9))
    copy.load_state_dict({name: tensor.clone() for name, tensor in block.state_dict().items()})
    for b in (block, copy):
        b.update(*given)
    assert all(torch.equal(tensor, copy.state_dict()[name]) for name, tensor in block.state_dict().items())
    assert int(copy.state_dict()["step"]) == 2
    with pytest.raises(ValueError, match="Expected the state of 4 critics"):
        critics.make(4, torch.Generator()).load_state_dict(block.state_dict())


def test_a_label_outside_the_classes_means_none():
    block, (images, labels, *_) = block_of(SMALL), data_for(SMALL)
    none = block.scores(images, torch.full_like(labels, -1))
    assert torch.equal(none, block.scores(images, torch.full_like(labels, 99)))
    for name in ("first_label", "second_label"):
        block.weights[name].zero_()
    block.weights["dense"][:, 49 * 18 : 49 * 18 + 10] = 0
    block.weights["last"][:, 32:42] = 0
    torch.testing.assert_close(none, block.scores(images, labels))


@pytest.mark.parametrize("layer", ["first", "second"])
def test_an_unlabelled_image_moves_the_biases_and_no_labels_weights(layer):
    critics = dataclasses.replace(SMALL, norm=False)
    (images, labels, fakes, fake_labels), y = data_for(critics), critics.classes
    labels, fake_labels = labels.clone(), torch.full_like(fake_labels, y)
    labels[labels == 3] = -1
    block = block_of(critics)
    before = {name: w.clone() for name, w in block.weights.items()}
    block.update(images, labels, fakes, fake_labels)
    moved = (block.weights[f"{layer}_label"] != before[f"{layer}_label"]).flatten(2).any(2)
    present = torch.stack([(labels == k).any(1) for k in range(y)], 1)
    assert torch.equal(moved, present) and not present[:, 3].any()
    assert (block.weights[f"{layer}_bias"] != before[f"{layer}_bias"]).any(1).all()


def trajectory(critics: Critics, steps: int) -> tuple[Tensor, Tensor]:
    block, (images, labels, fakes, fake_labels) = block_of(critics), data_for(critics)
    start = block.weights["dense"].clone()
    random = torch.Generator().manual_seed(2)
    for _ in range(steps):
        block.update(images, labels, torch.rand(fakes.shape, generator=random), fake_labels)
    return block.weights["dense"] - start, block.second["dense"].float()


@pytest.mark.parametrize("steps, far, off", [(20, 0.02, 0.01), (60, 0.15, 0.03)])
def test_short_moments_keep_to_the_trajectory(steps, far, off, monkeypatch):
    monkeypatch.setattr(Critics, "_spread", lambda *_: 0.02)  # small gradients, where rounding shows
    critics = Critics((1, 12, 12), 2, 4, 16, teacher_batch=5, norm=False)
    short = dataclasses.replace(critics, moments="bfloat16")
    (way, second), (short_way, short_second) = trajectory(critics, steps), trajectory(short, steps)
    distance = (short_way - way).norm()
    assert distance < far * way.norm()
    assert short_second.sum() == pytest.approx(float(second.sum()), rel=off)
    monkeypatch.setattr(stacked, "dithered", lambda x, _: x.bfloat16())
    assert (trajectory(short, steps)[0] - way).norm() > 1.3 * distance  # why there is a dither


def test_the_dither_keeps_small_changes_that_nearest_rounding_loses():
    value = torch.linspace(1, 2, 1000)[None]
    dithered, nearest = value.bfloat16(), value.bfloat16()
    for step in range(1, 1001):
        offset = torch.tensor(step * stacked.GOLDEN % 65536)
        dithered = stacked.dithered(dithered.float() * 0.999, offset)
        nearest = (nearest.float() * 0.999).bfloat16()
    expected = value * 0.999**1000
    assert ((dithered.float() - expected).abs() / expected).max() < 0.06
    assert (nearest.float() > 0.9 * value).all()  # frozen


def test_a_dithered_number_is_one_of_its_neighbours():
    x = torch.cat([torch.rand(1, 500) * 1e-8, torch.zeros(1, 1), torch.full((1, 1), torch.inf)], 1)
    for offset in (0, 1, 40_000, 65_535):
        rounded = stacked.dithered(x, torch.tensor(offset)).float()
        assert torch.equal(rounded[:, -2:], x[:, -2:])
        assert ((rounded - x)[:, :500].abs() <= x[:, :500] / 128).all()


def test_bfloat16_products_point_the_same_way():
    block, (_, _, fakes, labels) = block_of(SMALL, 40), data_for(SMALL, fakes=15)
    exact = block.directions(fakes, labels)
    short = block_of(dataclasses.replace(SMALL, precision="bfloat16"), 40)
    short.load_state_dict(block.state_dict())
    close = short.directions(fakes, labels)
    cosine = functional.cosine_similarity(close.flatten(1), exact.flatten(1), dim=1)
    # Of a few teachers, a unit at the kink of a leaky ReLU falls on the other side: all is asked of half of them.
    assert close.dtype == torch.float32 and 0.995 < cosine.median() < 0.99999 and cosine.min() > 0.5


def test_the_rounded_copy_follows_the_weights():
    critics = dataclasses.replace(SMALL, precision="bfloat16")
    block, data = block_of(critics, 6), data_for(critics, count=6)
    before = block.rounded["dense"].clone()
    block.update(*data)
    assert torch.equal(block.rounded["dense"], block.weights["dense"].bfloat16())
    assert not torch.equal(block.rounded["dense"], before) and not block_of(SMALL, 6).rounded
    few = block.some(torch.tensor([4, 1]))
    assert torch.equal(few.directions(*data[2:]), block.directions(*data[2:])[[4, 1]])


def test_no_setting_of_torch_is_left_changed():
    before = torch.get_float32_matmul_precision()
    with stacked.precision(SMALL, torch.device("cuda")):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before and torch.is_grad_enabled()


@pytest.mark.parametrize("parts", [1, 7, 256, 4000])
def test_blocks_are_even_and_bounded(parts):
    chunk = chunk_for(Critics((1, 28, 28), 10), "cpu", parts)
    blocks = -(-parts // chunk)
    assert Critics((1, 28, 28), 10).bytes(chunk) <= stacked.CPU_BOUND and chunk * blocks - parts < blocks
    assert chunk_for(Critics((3, 512, 512), 10), "cpu", parts) == 1


def test_a_block_on_cuda_leaves_room_for_all_states(monkeypatch):
    critics = Critics((1, 28, 28), 10)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (50 * 10**9, 140 * 10**9))
    chunk = chunk_for(critics, "cuda", 4000)
    assert 100 < chunk < 4000 and critics.held(4000) + critics.bytes(chunk) < 50 * 10**9
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**10, 140 * 10**9))
    chunk = chunk_for(critics, "cuda", 4000)
    assert critics.held(chunk) + critics.bytes(chunk) < 10**10


def test_a_compiler_that_fails_is_done_without(monkeypatch):
    from torch._dynamo.exc import BackendCompilerFailed

    def broken(work):
        def call(*given):
            raise BackendCompilerFailed(work, RuntimeError("no compiler"), None)

        return call

    given = data_for(SMALL)
    plain, block = block_of(SMALL), block_of(SMALL, compiled=True)
    monkeypatch.setattr(stacked, "_fused", broken)
    block.update(*given)
    plain.update(*given)
    assert not block.tuning.compiled and torch.equal(block.weights["dense"], plain.weights["dense"])


@pytest.mark.slow
@pytest.mark.parametrize("critics", [SMALL, dataclasses.replace(SMALL, moments="bfloat16", precision="bfloat16")])
def test_an_update_is_one_graph_for_the_compiler(critics, monkeypatch):
    monkeypatch.setattr(stacked, "BACKEND", "aot_eager")
    given = data_for(critics)
    plain, block = block_of(critics, align=8), block_of(critics, align=8, compiled=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler's own imports
        block.update(*given)
        found = block.directions(*given[2:])
    plain.update(*given)
    assert block.tuning.compiled
    torch.testing.assert_close(found, plain.directions(*given[2:]), rtol=0.05, atol=1e-5)


def apart(team: Stacked, given: list[torch.Tensor]) -> float:
    """How far the teachers tell their own images from the fakes, on the whole."""
    images, labels, fakes, fake_labels = given
    return float(team.scores(images, labels).mean() - team.scores(fakes[None], fake_labels[None]).mean())


@cache
def taught(count: int) -> tuple[dict[str, torch.Tensor], list[torch.Tensor], torch.Tensor, float]:
    """Weights of fresh teachers in full precision, their images, what they say at first, and after twenty updates."""
    team, given = block_of(SMALL, count), data_for(SMALL, count)
    fresh, before = {name: w.clone() for name, w in team.weights.items()}, team.directions(*given[2:])
    for _ in range(20):
        team.update(*given)
    return fresh, given, before, apart(team, given)


# Rounding moves the directions of fresh teachers a lot, and a few steps of Adam move them further apart; what teachers
# have learned together is the same.
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "precision, moments, limit",
    [
        ("float32", "float32", 1e-4),
        ("tf32", "float32", 0.1),
        ("bfloat16", "float32", 0.5),
        ("bfloat16", "bfloat16", 0.5),
    ],
)
def test_rounded_products_teach_the_same(device, precision, moments, limit):
    critics, count = dataclasses.replace(SMALL, precision=precision, moments=moments), 200 if device == "cuda" else 40
    fresh, given, before, expected = taught(count)
    theirs = Stacked(critics, {name: w.to(device, copy=True) for name, w in fresh.items()})
    there = [x.to(device) for x in given]
    assert (before - theirs.directions(*there[2:]).cpu()).norm() < limit * before.norm()
    for _ in range(20):
        theirs.update(*there)
    learned = apart(theirs, there)
    assert expected > 0.1 and learned == pytest.approx(expected, rel=0.02)
    assert theirs.tuning.compiled == (device == "cuda")
    changed = there[0].clone()
    changed[7] = float("nan")
    theirs.update(changed, *there[1:])
    rest = [i for i in range(count) if i != 7]
    assert theirs.directions(*there[2:])[rest].isfinite().all()


@pytest.mark.gpu
def test_more_small_products_than_a_grid_is_deep():
    critics, count = Critics((1, 9, 9), 10, 4, 8, teacher_batch=2, precision="float32"), 7000  # 16 tables each
    ours, given = block_of(critics, count), data_for(critics, count)
    theirs = Stacked(critics, {name: w.cuda() for name, w in ours.weights.items()})
    theirs.tuning = dataclasses.replace(theirs.tuning, compiled=False)
    theirs.update(*(x.cuda() for x in given))
    ours.update(*given)
    for name in ("first_label", "first_bias", "second_label"):  # where a moment is, so was a gradient
        off = (theirs.first[name].cpu() - ours.first[name]).flatten(1).norm(dim=1) / ours.first[name].flatten(1).norm(
            dim=1
        )
        assert off.median() < 1e-4 and off[-500:].median() < 1e-4, name
