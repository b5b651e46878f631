"""One tape of noise for runs that are compared to the bit, and a barrier whose questions travel as bytes."""

from __future__ import annotations

import os

from sfumato import Run, load
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.noise import REKEY_BYTES, Noise, _chacha20
from sfumato.privacy.odometer import Odometer
from sfumato.remote.wire import Kept, decode, encode
from tests.made_up import arrays
from tests.methods.test_contract import SPEC, planned


class Tape(Noise):
    """The same noise each time."""

    def _rekey(self):
        self._owner, self._left = os.getpid(), REKEY_BYTES
        self._name, self._stream = "a tape", _chacha20(bytes(32))


class Loopback:
    """Behind a barrier: each question is written and read before it is put to the real one."""

    def __init__(self, inner):
        self.inner, self.spec, self.odometer, self.noise = inner, inner.spec, inner.odometer, inner.noise
        self.handles, self.kept = [], Kept()

    def over(self, *things):
        data = encode(things, numbers=self.handles.index)
        return decode(data, handles=self.handles.__getitem__, kept=self.kept)

    def hold(self, model, parts):
        self.handles.append(self.inner.hold(*self.over(model, parts)))
        return self.handles[-1]

    def train(self, held, *public):
        self.inner.train(*self.over(held, *public))

    def release(self, name, query, *public):
        return self.inner.release(*self.over(name, query, *public))


def sums(method, loop=False):
    """The exact sums of a tiny run under the tape, and the weights that it ends with."""
    heard = []
    odometer = Odometer(planned(method))
    how = {"microbatch": 16, "noise": Tape(), "heard": lambda name, total: heard.append((name, total.clone()))}
    barrier = Barrier(load(arrays()), SPEC, odometer, **how)
    barrier = Barrier.before(Loopback(behind(barrier))) if loop else barrier
    net = method.learn(barrier, Run(device="cpu", odometer=odometer))
    return heard, net.state_dict()


def closure(first, second):
    def one(images):
        return images * first

    def two(images):
        return one(images) + second

    return two


def twins():
    return [lambda x: x + 1, lambda x: x + 2]
