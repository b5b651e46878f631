"""Queries as bytes: the same answers to the bit, and nothing but queries."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sfumato.data.labels import LabelPrior
from sfumato.engine.gradients.per_example import per_example
from sfumato.methods import names
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.labelled import Labeller
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.partitions import PartitionHandle, PartitionSum
from sfumato.remote.wire import Kept, WireError, decode, encode, fingerprint
from sfumato.remote.writing import ALIGN, MAGIC
from sfumato.types import Unit
from tests.made_up import box
from tests.remote import tape
from tests.remote.tape import closure, sums, twins
from tests.test_snapshot import WAYS, way

QUICK = ("dp-sinkhorn", "dpaf", "g-pate", "sfumato", "dpdm plain")
EVERY = [*names(), *WAYS]
HERE = (tape.__name__,)  # a module that may travel where a test says so


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in EVERY])
def test_every_query_of_a_method_gives_the_same_sums_after_it_travelled(name):
    (direct, weights), (sent, others) = sums(way(name)), sums(way(name), loop=True)
    assert [n for n, _ in sent] == [n for n, _ in direct] != []
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(direct, sent, strict=True))
    assert all(torch.equal(weights[key], others[key]) for key in weights)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, -2.5, float("inf"), "text", True, 2**70],
        {1: "one", (2, 3): {"deep": [b"bytes", {4}]}},
        Unit.PERSON,
        LabelPrior("private", fraction=0.3),
        torch.float64,
        torch.Size([2, 3]),
    ],
)
def test_plain_values_come_back_as_they_were(value):
    assert decode(encode(value)) == value


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", [(), (0,), (3, 2), (2, 3, 4, 5)])
def test_tensors_come_back_to_the_bit(kind, shape):
    value = torch.randint(0, 2, shape).to(kind)
    back = decode(encode(value))
    assert back.dtype == kind and back.shape == value.shape and torch.equal(back, value)


def test_tensors_keep_the_order_of_their_axes_and_whether_they_learn():
    value = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    back = decode(encode(nn.Parameter(value, requires_grad=False)))
    assert back.stride() == value.stride() and torch.equal(back, value)
    assert isinstance(back, nn.Parameter) and not back.requires_grad


def test_a_network_comes_back_whole_and_shares_what_it_shared():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3)).eval()
    net[2].weight = net[0].weight
    back = decode(encode(net))
    x = torch.randn(5, 3)
    assert torch.equal(back(x), net(x)) and not back.training
    assert back[2].weight is back[0].weight and back[0].weight is not net[0].weight


def test_arrays_and_numbers_of_numpy_travel_and_objects_do_not():
    back = decode(encode([np.arange(6.0).reshape(2, 3), np.int64(3)]))
    assert back[0].tolist() == [[0, 1, 2], [3, 4, 5]] and back[1] == 3
    with pytest.raises(WireError, match="numbers"):
        encode(np.array([object()]))


def test_a_function_travels_by_name_with_what_it_closes_over():
    data = encode(closure(torch.tensor(3.0), 4), allow=HERE)
    assert b"closure.<locals>.two" in data and b"images" not in data
    assert decode(data, allow=HERE)(torch.tensor(2.0)) == 10


def test_functions_of_one_name_are_told_apart():
    assert [f(1) for f in decode(encode(twins(), allow=HERE), allow=HERE)] == [2, 3]


def test_a_lambda_of_a_test_is_no_query():
    with pytest.raises(WireError, match="installed method"):
        encode(BoundedSum(lambda images, labels: images, Bound(1.0), (1,)))
    with pytest.raises(WireError, match="installed method"):
        decode(encode(twins(), allow=HERE))


def test_a_handle_travels_as_its_number():
    held = PartitionHandle(5)
    query = PartitionSum(held, torch.nn.Identity(), Bound(1.0), (2,), 3)
    data = encode(query, numbers={held: 7}.__getitem__)
    back = decode(data, handles={7: held}.__getitem__)
    assert back.held is held and back.queries == 3
    with pytest.raises(WireError):
        encode(query)
    with pytest.raises(WireError):
        decode(data)


def message(tree) -> bytes:
    raw = json.dumps(tree).encode()
    head = MAGIC + len(raw).to_bytes(8, "little") + raw
    return head + bytes(-len(head) % ALIGN)


@pytest.mark.parametrize(
    "tree",
    [
        ["global", "os", "system"],
        ["global", "posix", "system"],
        ["global", "builtins", "eval"],
        ["global", "builtins", "getattr"],
        ["global", "functools", "partial"],
        ["partial", ["global", "os", "system"], ["true"], []],
        ["class", "subprocess", "Popen"],
        ["object", 0, "subprocess", "Popen", []],
        ["data", 0, "sfumato.privacy.inside", "Inside", []],
        ["global", "sfumato.privacy.partitions", "inside"],
        ["object", 0, "sfumato.privacy.partitions", "Partitions", []],
        ["global", "sfumato.data.private", "records"],
        ["global", "sfumato.engine.dpsgd", "os.system"],
        ["global", "sfumato.engine.match", "torch.load"],
        ["class", "sfumato.engine.dpsgd", "ClippedGradient"],  # a re-export
        ["global", "sfumato.engine.dpsgd", "replace"],
        ["global", "torch.nn.modules.linear", "F.linear"],
        ["global", "torch", "load"],
        ["global", "sfumato.networks.conv", "ConvGenerator.__init__.__globals__"],
        ["function", 0, "os", "system", 0, [], None, None],
        ["function", 0, "sfumato.engine.dpsgd", "<module>", 0, [], None, None],
        ["function", 0, "sfumato.engine.dpsgd", "DPSGD.steps", -1, [], None, None],
        ["method", ["tuple", []], "__reduce__"],
        ["method", ["object", 0, "sfumato.engine.ema", "EMA", []], "__class__"],
        ["method", ["module", 0, "torch.nn.modules.linear", "Linear", []], "__getattribute__"],
        ["enum", "sfumato.types", "DataSpec", "name"],
        ["global", "torch.nn.modules.module", "register_module_forward_hook"],
        ["function", 0, "torch.nn.modules.linear", "Linear.forward", 0, [], None, None],
        ["module", 0, "sfumato.types", "DataSpec", []],
        ["object", 0, "sfumato.privacy.bounds", "Bound", [["norm", 1.0]]],
        ["tensor", 0, "float32", [4], [0], "cpu", [False, False], [0, 16]],
        ["tensor", 0, "float32", [-1], [0], "cpu", [False, False], [0, 0]],
        ["tensor", 0, "float32", [0], [0], "cpu", [False, False], [0, 4]],
        ["tensor", 0, "object", [], [], "cpu", [False, False], [0, 0]],
        ["array", 0, "|O", [1], [0, 8]],
        ["module", 0, "torch.nn.modules.linear", "Linear", [["forward", 1]]],
        ["object", 0, "sfumato.engine.ema", "EMA", [["update", 1]]],
        ["@", 3],
        ["held", 0],
        ["unknown"],
        [],
        [[]],
    ],
    ids=str,
)
def test_a_crafted_message_is_refused_in_a_sentence(tree):
    with pytest.raises(WireError):
        decode(message(tree))


@pytest.mark.parametrize("data", [b"", b"\x80\x04cos\nsystem\n", MAGIC, MAGIC + bytes(8), MAGIC + b"\xff" * 40])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(WireError):
        decode(data)


@pytest.mark.parametrize(
    "evil", [os.system, eval, getattr, functools.partial(os.getcwd), torch.load, object(), __import__, open, json]
)
def test_what_is_no_query_is_not_sent(evil):
    with pytest.raises(WireError):
        encode(evil)


def test_a_class_refuses_on_arrival_what_it_would_refuse_here():
    fine = ["data", 0, "sfumato.privacy.bounds", "Bound", [["norm", 1.0]]]
    assert decode(message(fine)) == Bound(1.0)
    for field in (["norm", -1.0], ["project", 1.0]):
        with pytest.raises(WireError):
            decode(message([*fine[:-1], [field]]))


def test_private_records_do_not_travel():
    with pytest.raises(WireError), box() as data:
        encode(data)


def test_a_fixed_map_that_came_before_is_the_same_object_again():
    net, kept = Labeller((1, 8, 8), 2, patches=2, mirrored=False), Kept()
    first = decode(encode(net), kept=kept)
    net.head.weight.data += 1
    second = decode(encode(net), kept=kept)
    assert second.sees is first.sees and torch.equal(second.head.weight, first.head.weight + 1)
    assert decode(encode(net)).sees is not first.sees


def test_what_a_query_settled_stays_settled_for_the_same_network_alone():
    net, kept = ConvGenerator((1, 8, 8), ("a",), latent=2, width=8), Kept()
    query = per_example(net, net.forward, 1.0)
    first = decode(encode(query), kept=kept)
    first._chosen["settled"] = "loop"
    assert decode(encode(replace(query, clip=replace(query.clip, norm=2.0))), kept=kept)._chosen == first._chosen
    assert decode(encode(replace(query, bfloat16=True)), kept=kept)._chosen == {}


def test_memories_are_few():
    kept = Kept(most=2)
    made = [kept.of(bytes([n]), list) for n in (1, 2, 3)]
    assert kept.of(bytes([3]), list) is made[2] and kept.of(bytes([1]), list) is not made[0]


def test_the_fingerprint_is_of_all_sources():
    assert len(fingerprint()) == 64 and fingerprint() == fingerprint()
