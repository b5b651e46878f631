"""What the contract suite asks of every method, asked of a method at settings that are not its usual ones."""

from __future__ import annotations

import pytest
import torch

from sfumato import Run, load
from sfumato.errors import Interrupted
from sfumato.privacy.odometer import Odometer
from sfumato.run.progress import Recorder
from tests.made_up import arrays
from tests.methods.test_contract import StopAfter, learn, neighbours, planned, taped


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


def keeps_the_contract(method, folder, stop=4):
    """Blind, under one tape of releases with a neighbour, and resumed."""
    blind, _, run, _ = learn(method, None)
    assert run.odometer.complete and all(torch.isfinite(p).all() for p in blind.state_dict().values())
    whole = taped(method)[0]
    assert same(whole, learn(method, load(neighbours()["label"]), tape=1)[0])

    def made(progress):
        progress.run = Run(device="cpu", folder=folder, progress=progress, odometer=Odometer(planned(method)))
        return progress.run

    with pytest.raises(Interrupted):
        learn(method, load(arrays()), tape=1, run=made(StopAfter(stop)))
    assert same(whole, learn(method, load(arrays()), tape=1, run=made(Recorder()))[0])
