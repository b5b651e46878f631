"""DP-MEPF: its plan, its public network, and that it learns."""

from __future__ import annotations

import json
import math

import pytest
from torch import nn

from sfumato import DPMEPF, Budget, InputError, Relation
from sfumato.networks.pretrained import weights
from tests.one_release import MNIST, bright_and_dark, learned_apart

SMALL = {"grid": 2, "steps": 60, "batch": 8, "latent": 4, "width": 8}


def test_two_unit_blocks_are_charged():
    made = DPMEPF().plan(MNIST, Budget(1.0)).crossings["embedding"]
    assert made.event(Relation.ADD_REMOVE).sensitivity == pytest.approx(math.sqrt(2), rel=1e-5)
    assert made.event(Relation.REPLACE_ONE).sensitivity == pytest.approx(2 * math.sqrt(2), rel=1e-5)


def test_a_module_of_the_user_is_named_in_the_plan():
    method = DPMEPF(network=nn.Sequential(nn.Flatten(), nn.Linear(192, 30)), **SMALL)
    plan = method.plan(MNIST, Budget(1.0))
    assert plan.facts["public_network"] == method.network and method.network.startswith("module-")
    assert json.loads(json.dumps(plan.to_json()))["settings"]["network"] == method.network
    assert method.small().network == method.network  # the audit is of the module itself
    assert DPMEPF().small().network == "random"


def test_without_weights_nothing_is_asked(monkeypatch):
    monkeypatch.delenv(weights.EFFICIENTNET, raising=False)
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    from sfumato import Run
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer

    box, method = bright_and_dark(20), DPMEPF()
    odometer = Odometer(method.plan(box.spec, Budget(1.0)))
    with pytest.raises(InputError, match="efficientnet"):
        method.learn(Barrier(box, box.spec, odometer), Run(device="cpu", odometer=odometer))
    assert not any(odometer.used.values())


@pytest.mark.parametrize("bad", [{"network": "no such file"}, {"grid": 0}, {"network": 7}])
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPMEPF(**bad)


def test_it_learns_what_is_easy():
    assert learned_apart(DPMEPF(network="random", **SMALL), bright_and_dark()) > 40
