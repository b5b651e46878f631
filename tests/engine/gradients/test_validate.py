"""Layers that mix examples are refused by kind or found by what they do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sfumato.engine.gradients.validate import mixes_examples, validate
from sfumato.errors import InputError


class MinibatchStdDev(nn.Module):
    def forward(self, x):
        return torch.cat([x, x.std(0).mean().expand(len(x), 1)], 1)


class ActNorm(nn.Module):
    pass


REFUSED = [
    nn.BatchNorm1d(3),
    nn.BatchNorm2d(3),
    nn.BatchNorm3d(3),
    nn.SyncBatchNorm(3),
    nn.LazyBatchNorm2d(),
    nn.BatchNorm2d(3, track_running_stats=False).eval(),
    nn.InstanceNorm2d(3, track_running_stats=True),
    MinibatchStdDev(),
    ActNorm(),
]


@pytest.mark.parametrize("layer", REFUSED, ids=lambda layer: type(layer).__name__)
def test_the_layer_and_the_remedy_are_named(layer):
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), layer))
    with pytest.raises(InputError, match=f"'1.1' \\({type(layer).__name__}\\): (use|set|leave|initialise)"):
        validate(net)


def test_layers_that_keep_examples_apart_pass():
    apart = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.InstanceNorm2d(4, affine=True),
        nn.LayerNorm(4),
        nn.Dropout(),
        nn.BatchNorm2d(4).eval(),
        nn.InstanceNorm2d(4, track_running_stats=True).eval(),
        nn.Embedding(3, 4),
    )
    validate(apart)
    apart[5].train()
    with pytest.raises(InputError, match="'5'"):  # it was looked at
        validate(apart)


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_behaviour_tells_what_mixes():
    images = torch.rand(4, 3, 6, 6)
    apart = [nn.Conv2d(3, 4, 3), nn.GroupNorm(3, 3), nn.InstanceNorm2d(3), nn.Dropout(0.5), nn.BatchNorm2d(3).eval()]
    mixing = [
        nn.BatchNorm2d(3),
        lambda x: x.flip(0),
        lambda x: x.cumsum(0),
        lambda x: x.sum(0),
        lambda x: x + x.detach().mean(0),
        lambda x: (x > x.mean(0)).float(),
    ]
    assert [mixes_examples(layer, images) for layer in apart] == [False] * len(apart)
    assert [mixes_examples(layer, images) for layer in mixing] == [True] * len(mixing)


def test_attention_over_the_wrong_axis_is_found():
    attend = nn.MultiheadAttention(6, 2, batch_first=False)
    right = nn.MultiheadAttention(6, 2, batch_first=True)
    assert mixes_examples(lambda x: attend(x, x, x)[0], torch.rand(4, 5, 6))
    assert not mixes_examples(lambda x: right(x, x, x)[0], torch.rand(4, 5, 6))


def test_two_examples_are_needed():
    with pytest.raises(ValueError, match="at least 2"):
        mixes_examples(nn.Identity(), torch.rand(1, 3))
