"""The moving average of weights: its formula, and that it comes back."""

from __future__ import annotations

import pytest
import torch

from sfumato.engine.ema import EMA


def net_at(value):
    net = torch.nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(value)
    return net


def test_the_average_is_the_recursion():
    average, expected = EMA(net_at(5.0), 0.3), 5.0
    for count, value in enumerate([1.0, 2.0, 4.0, 8.0, 16.0]):
        average.update(net_at(value))
        kept = min(0.3, count / (count + 9))
        expected = kept * expected + (1 - kept) * value
    shown = net_at(0.0)
    average.put(shown)
    assert [shown.weight[0, 1].item(), shown.bias.item()] == pytest.approx([expected] * 2)


def test_the_first_weights_are_forgotten_at_once():
    average = EMA(net_at(1e6), 0.999)
    average.update(net_at(1.0))
    assert average.weights["weight"].tolist() == [[1.0, 1.0]]


def test_the_average_is_its_own_copy():
    net = net_at(1.0)
    mean = EMA(net, 0.9)
    with torch.no_grad():
        net.weight.fill_(7.0)
    assert mean.weights["weight"].tolist() == [[1.0, 1.0]]
    again = EMA(net, 0.9)
    again.load_state_dict(mean.state_dict())
    again.update(net)
    assert mean.count == 0 and again.count == 1 and mean.weights["weight"].tolist() == [[1.0, 1.0]]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="decay=1"):
        EMA(net_at(1.0), 1.0)
    with pytest.raises(ValueError, match="same parameters"):
        EMA(net_at(1.0), 0.9).load_state_dict(EMA(torch.nn.Linear(2, 1, bias=False), 0.9).state_dict())
