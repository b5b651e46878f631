"""What a fixed map has of the records is computed once behind the barrier, and changes no answer."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sfumato import load
from sfumato.engine.gradients.per_example import per_example
from sfumato.privacy import inside
from sfumato.privacy.inside import Sums
from sfumato.remembered import attach, carried, recall


class Counted(nn.Module):
    """Doubled pixels, and how many images were looked at."""

    width = 16

    def __init__(self) -> None:
        super().__init__()
        self.images = 0

    def forward(self, images):
        known = recall(images, self)
        if known is not None:
            return known.float()
        self.images += len(images)
        return images.flatten(1) * 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sees = Counted()
        self.head = nn.Linear(16, 3)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images):
        with torch.no_grad():
            rows = self.sees(images)
        return self.head(rows.to(self.head.weight))


def asked(net):
    return per_example(net, lambda net, x, y: nn.functional.cross_entropy(net(x), y, reduction="none"), 1.0, batch=70)


def sums(persons=False):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (70, 4, 4), dtype=np.uint8)
    labels = np.arange(70) % 3
    from sfumato.data.private import records

    box = load((pixels, labels, np.arange(70) // 2), person="person") if persons else load((pixels, labels))
    return Sums(records(box), box.spec, "cpu", 32, lambda name, fraction: None)


def total(made, net, pages):
    return made.total("gradient", asked(net), pages, 70, ())


def pages(units):
    return np.concatenate([units, np.full(-len(units) % 32, -1)]).reshape(-1, 32)


def test_the_map_looks_once_at_every_record():
    made, net = sums(), Net()
    first = total(made, net, pages(np.arange(70)))
    before = net.sees.images
    again = total(made, net, pages(np.arange(70)))
    assert torch.equal(first, again)
    assert net.sees.images - before < 32  # a few made-up images, on which the choice of a way is tried; no page


def test_the_map_looks_once_at_every_record_of_a_person_too():
    made, net = sums(persons=True), Net()
    first = total(made, net, pages(np.arange(35)))
    before = net.sees.images
    assert torch.equal(total(made, net, pages(np.arange(35))), first)
    assert net.sees.images - before < 32 and float(first.abs().sum()) > 0.1


def test_answers_are_those_of_a_map_that_is_not_remembered(monkeypatch):
    found = total(sums(), Net(), pages(np.arange(50)))
    monkeypatch.setattr(inside, "REMEMBERED", 0)
    torch.testing.assert_close(total(sums(), Net(), pages(np.arange(50))), found, atol=2e-2, rtol=1e-3)
    assert float(found.abs().sum()) > 1


def test_blank_places_hold_nobody():
    made, net = sums(), Net()
    assert not total(made, net, np.full((1, 32), -1)).any()


def test_attached_features_go_along_and_belong_to_their_map():
    images, one, other = torch.zeros(2, 1, 4, 4, dtype=torch.float64), Counted(), Counted()
    attach(images, one, torch.ones(2, 16))
    moved = carried(images, torch.zeros(1))
    assert moved.dtype == torch.float32 and recall(moved, one) is not None
    assert recall(moved, other) is None and recall(torch.zeros(2, 1, 4, 4), one) is None
