"""The geometry of one critic."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional

from sfumato.engine.teachers.critics import Critics


@pytest.mark.parametrize(
    "shape, classes, parameters",
    [((1, 28, 28), 10, 555_655), ((3, 64, 64), 2, 2_236_445), ((3, 64, 64), 3, 2_304_442)],
)
def test_the_published_sizes(shape, classes, parameters):
    assert Critics(shape, classes).parameters == parameters


@pytest.mark.parametrize("critics", [Critics((1, 28, 28), 10), Critics((3, 13, 10), 0, 8, 32, norm=False)])
def test_weights_are_the_parameters_and_rows_that_stay_zero(critics):
    made = critics.start(2, torch.Generator().manual_seed(0), "cpu")
    used = critics.positions[2] * critics.maps[1] + critics.classes + 1
    spare = (made["dense"].shape[1] - used) * critics.hidden
    assert sum(w[0].numel() for w in made.values()) - spare == critics.parameters
    assert not made["dense"][:, used - 1 :].any() and made["dense"].shape[1] % 8 == 0
    assert not torch.equal(made["first"][0], made["first"][1])
    spread = 0.02 if critics.norm else (2 / made["dense"].shape[1]) ** 0.5
    assert made["dense"][:, : used - 1].std() == pytest.approx(spread, rel=0.05)


def test_a_start_is_that_of_its_seed():
    critics = Critics((1, 8, 8), 2, 4, 8)
    one, same, other = (critics.start(3, torch.Generator().manual_seed(s), "cpu")["dense"] for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


@pytest.mark.parametrize("side", [(28, 28), (13, 10), (1, 2), (3, 4)])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_table_is_the_convolution_of_a_constant_plane(side, layer):
    critics = Critics((1, *side), 3)
    taps = torch.randn(25, dtype=torch.float64)
    plane = torch.ones(1, 1, *critics.sides[layer], dtype=torch.float64)
    expected = functional.conv2d(plane, taps.view(1, 1, 5, 5), stride=2, padding=2)[0, 0]
    assert expected.shape == critics.sides[layer + 1]
    torch.testing.assert_close(critics.inside(layer).double() @ taps, expected.flatten())


def test_memory_is_linear_in_teachers_and_falls_with_shorter_numbers():
    full, short = Critics((1, 28, 28), 10), Critics((1, 28, 28), 10, moments="bfloat16", precision="bfloat16")
    assert full.bytes(400) == 400 * full.bytes(1) and full.held(400) == 400 * full.held(1)
    assert full.held(4000) == pytest.approx(4000 * 555_655 * 12, rel=0.01)
    assert short.held(1) < 0.85 * full.held(1) and short.bytes(1) < full.bytes(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": (1, 28)},
        {"shape": (1, 0, 28)},
        {"classes": -1},
        {"width": 0},
        {"teacher_batch": 0},
        {"learning_rate": float("nan")},
        {"beta2": 1.0},
        {"moments": "int8"},
        {"precision": "half"},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="Expected .* found"):
        Critics(**{"shape": (1, 28, 28), "classes": 10} | wrong)


def test_first_weights_are_secret_and_of_each_its_own_unless_they_are_shared():
    shared = dataclasses.replace(Critics((1, 8, 8), 2, 4, 8), starts=2)
    weights = shared.start(5, torch.Generator().manual_seed(0), "cpu")["first"]
    again = shared.start(3, torch.Generator().manual_seed(1), "cpu")["first"]
    assert torch.equal(weights[0], weights[2]) and torch.equal(weights[1], weights[3])
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[:3], again)  # of every block, whatever the secret
    own = Critics((1, 8, 8), 2, 4, 8).start(2, torch.Generator().manual_seed(0), "cpu")["first"]
    assert not torch.equal(own[0], own[1])
