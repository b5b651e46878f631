"""Frozen public networks as features."""

from __future__ import annotations

import pytest
import torch

from sfumato import Budget, InputError, Run
from sfumato.classify import Classifier, TrainedClassifier
from sfumato.classify.features import Public, ResNet18
from sfumato.flow.train_classifier import train_classifier
from tests.made_up import box


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """ResNet-18 with made-up weights."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "resnet18.safetensors"
    save_file({k: v for k, v in ResNet18().state_dict().items() if not k.endswith("num_batches_tracked")}, path)
    return path


def test_the_layout_is_that_of_torchvision():
    names = set(ResNet18().state_dict())
    assert {"layer1.0.conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias", "fc.weight"} <= names
    assert sum(p.numel() for p in ResNet18().parameters()) == 11_689_512


def test_it_trains_the_head_alone_and_says_which_network_it_needs(file, tmp_path):
    classifier = Classifier(network="features", features="resnet18", weights=str(file), steps=1, batch=12)
    made = train_classifier(classifier, box(n=12), Budget(2.0), Run(device="cpu"), out=tmp_path / "out")
    assert {n for n, p in made.network.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}
    told = made.statement["declared_public"]
    assert told["public_data"]["name"] == "resnet18" and str(file.parent) not in str(made.statement)
    assert made.network.architecture.fingerprint in told["public_data"]["provenance"]
    assert TrainedClassifier.load(tmp_path / "out", weights=str(file)).digest() == made.digest()
    with pytest.raises(InputError, match="weights of resnet18 are not here"):
        TrainedClassifier.load(tmp_path / "out")


def test_other_weights_are_refused(file, tmp_path):
    from sfumato.classify.networks import Architecture, build

    made = Architecture("features", (1, 8, 8), ("a", "b"), features="resnet18", fingerprint="0" * 12)
    with pytest.raises(InputError, match="other weights"):
        build(made, weights=str(file))


def test_a_frozen_network_stays_in_evaluation_mode():
    body = Public(ResNet18(), lambda x: x / 255, 512)
    body.train()
    assert not body.network.training and not any(p.requires_grad for p in body.parameters())
    rows = body(torch.rand(2, 1, 32, 32))
    assert rows.shape == (2, 512) and torch.allclose(rows.mean(1), torch.zeros(2), atol=1e-5)
