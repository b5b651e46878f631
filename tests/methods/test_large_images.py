"""Images of 128 and 256 pixels a side: methods that take them, and one that says what to change first."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Budget, DataSpec, InputError, Run, load
from sfumato.api import make_plan
from sfumato.methods import find
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from tests.methods.test_contract import TINY

FOLDED = {"patch": 16, "embedding_share": 0.0}  # sixteen pixels a side become one position
CASES = [
    ("dp-moments", {}, 256),
    ("dp-merf", {}, 128),
    pytest.param("dp-merf", {}, 256, marks=pytest.mark.slow),
    pytest.param("dp-moments", {}, 128, marks=pytest.mark.slow),
    *(pytest.param("dpdm", FOLDED, side, marks=pytest.mark.slow) for side in (128, 256)),
    *(pytest.param("sfumato", {}, side, marks=pytest.mark.slow) for side in (128, 256)),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "settings", "side"), CASES)
def test_a_method_takes_large_images(name, settings, side):
    images = np.random.default_rng(0).integers(0, 256, (24, side, side, 3), dtype=np.uint8)
    box = load((images, np.arange(24) % 2))
    method = find(name)(**TINY[name] | settings)
    run = Run(device="cpu", microbatch=8, odometer=Odometer(make_plan(method, box.spec, Budget(5.0))))
    net = method.learn(Barrier(box, box.spec, run.odometer, microbatch=8), run)
    assert net.sample(2, seed=1).pixels.shape == (2, 3, side, side) and run.odometer.complete


@pytest.mark.parametrize(("side", "depth", "patch"), [(128, 1, 2), (256, 1, 4), (256, 2, 2)])
def test_attention_over_too_many_positions_is_refused_with_what_to_take(side, depth, patch):
    spec = DataSpec("scans", 60_000, (3, side, side), ("a", "b"))
    method = find("dpdm")(depth=depth, steps=10)
    with pytest.raises(InputError, match=f"positions .* {side}x{side}; take patch={patch}, a larger depth"):
        make_plan(method, spec, Budget(5.0))
    folded = find("dpdm")(depth=depth, steps=10, patch=patch)
    assert folded.positions(spec) == 4096 and find("dpdm")().positions(spec) <= 4096
