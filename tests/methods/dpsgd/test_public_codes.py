"""DP-LDM: codes of public images, a part of the network, and what the statement says of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato import DPDM, Budget, Run, audit, synthesize
from sfumato.data.public import PublicImages
from sfumato.engine.gradients.per_example import per_example
from sfumato.methods.dpsgd.public_codes import DEVIATION, teach_codes
from sfumato.networks.coded import CodedGenerator
from sfumato.record_rng import drawing
from sfumato.types import DataSpec, Images
from tests.explicit import halves, learned

SPEC = DataSpec("arrays", 240, (1, 8, 8), ("0", "1"))
MODEL = {"width": 8, "multipliers": (1, 2), "sampler_steps": 2}
TINY = {"steps": 2, "batch": 60, "width": 8, "depth": 2, "sampler_steps": 2, "noise_multiplicity": 2}
WAYS = {
    "codes": {"codes": 2, "code_steps": 2, "code_width": 8, "trainable": "attention"},
    "adapters": {"adapters": 2, "levels": "middle", "augment": "shift-flip"},
    "chosen": {"query_share": 0.1, "query_classes": 2, "query_steps": 2, "query_width": 8},
}


def public_images():
    images, labels = halves(60)
    return PublicImages(Images(images[:, None], labels, ("0", "1")), "made up")


def generator():
    torch.manual_seed(0)
    return CodedGenerator((1, 8, 8), ("0", "1"), channels=2, code_width=8, model=MODEL)


@torch.no_grad()
def gap(net, x):
    return float((net.autoencoder(net.seen(x)) - x).square().mean())


def test_the_autoencoder_learns_and_is_frozen_then():
    net = generator()
    x = torch.from_numpy(public_images().images.pixels).float() / 255
    before = gap(net, x)
    teach_codes(net, public_images(), SPEC, Run(device="cpu"), 80)
    assert gap(net, x) < 0.3 * before and not any(p.requires_grad for p in net.autoencoder.parameters())


def test_without_public_images_the_statement_says_what_stood_in():
    method = DPDM(**TINY, codes=2)
    assert method.public_used(None)["name"] == "dead leaves" and DPDM().public_used(None) is None
    assert method.public_used(public_images())["provenance"] == "made up"
    assert DEVIATION in method.plan(SPEC, Budget(1.0)).deviations


def test_the_gradient_is_of_the_part_and_keeps_its_bound():
    net, method = generator(), DPDM(**TINY, codes=2, trainable="attention")
    net.autoencoder.requires_grad_(False)
    method.freeze(net, Run(device="cpu"))
    draw = drawing(lambda name, at: torch.Generator().manual_seed(at), 2)(0)
    query = per_example(net, method.loss, 0.7, batch=6, noise_multiplicity=2, draw=draw)
    images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 2
    moved = query.total(images, labels) - query.total(images[1:], labels[1:])
    assert float(moved.norm()) <= 0.7 * 1.001 and set(query._chosen.values()) == {"ghost"}
    names = {name.split(".")[-3] for name in query.parameters if "attention" in name}
    assert names and all({"attention", "label", "known"} & set(name.split(".")) for name in query.parameters)


@pytest.mark.parametrize("way", ["codes", "adapters"])
def test_what_is_released_comes_back_the_same(way):
    from sfumato.networks import load_generator

    net = learned(DPDM(**TINY, **WAYS[way], public_steps=2, public_batch=4), public=public_images())
    again = load_generator(net.config(), net.state_dict())
    assert np.array_equal(net.sample(4).pixels, again.sample(4).pixels)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["codes", "adapters"])
def test_a_whole_release_passes_the_gate(way, tmp_path):
    method = DPDM(**TINY, **WAYS[way], public_steps=2, public_batch=4)
    made = synthesize(method, halves(), Budget(5.0), count=4, public=public_images(), out=tmp_path / "release")
    assert made.statement["declared_public"]["public_data"]["provenance"] == "made up"


def test_adapters_beside_a_part_are_refused():
    with pytest.raises(ValueError, match="trainable=all for adapters=2"):
        DPDM(adapters=2, trainable="attention")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_way_passes_its_audit(way):
    method = DPDM(**TINY, **WAYS[way], public_steps=2, public_batch=4)
    report = audit.check(method, level=0)
    assert report.verdict == "pass", report.failed
