"""A private side that is asked by bytes: it answers queries, refuses what only looks like one, and quotes nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from multiprocessing import Pipe

import pytest
import torch

from sfumato import Budget, OverBudget, load
from sfumato.engine.gradients.per_example import per_example
from sfumato.engine.random_fourier import RandomFourier
from sfumato.methods.dpsgd.scatter_matrix import Scatter
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import crossing
from sfumato.remote.asking import Line, RemoteBehind
from sfumato.remote.served import Served, check
from sfumato.remote.wire import WireError, decode, encode
from tests.made_up import arrays, plan
from tests.methods.test_contract import SPEC
from tests.remote.tape import Tape

PLAN = plan(SPEC, Budget(1.0), sum=crossing(Bound(1.0), 1.0, times=2))


def private_side():
    return behind(Barrier(load(arrays()), SPEC, Odometer(PLAN), noise=Tape(), microbatch=16))


def phi(size=6):
    return RandomFourier(SPEC.pixels, size, 1.0, torch.Generator().manual_seed(0))


def asked(act):
    """What `act` gets of a private side at the other end of a pipe."""
    ours, theirs = Pipe()
    served = Served(private_side())

    def serve():
        while True:
            try:
                reply = served.reply(theirs.recv_bytes())
            except EOFError:
                return
            if reply is not None:
                theirs.send_bytes(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        return act(RemoteBehind(Line(ours), PLAN, ("a tape", "exact")))
    finally:
        ours.close()
        thread.join()


def test_a_barrier_before_another_process_answers_as_one_before_records():
    query = BoundedSum(phi(), Bound(1.0), (6,), by_class=True)
    direct = private_side().release("sum", query)

    def act(remote):
        barrier = Barrier.before(remote)
        answer = barrier.release("sum", query)
        assert dict(barrier.used) == {"sum": 1} and barrier.noise.sampler == "exact"
        return answer

    assert torch.equal(asked(act), direct)


def test_one_use_too_many_is_raised_on_the_other_side():
    query = BoundedSum(phi(), Bound(1.0), (6,))

    def act(remote):
        for _ in range(3):
            remote.release("sum", query)

    with pytest.raises(OverBudget, match="at most 2 uses"):
        asked(act)


def test_a_failure_near_records_tells_its_kind_and_nothing_else():
    wrong = BoundedSum(phi(), Bound(1.0), (7,))  # its sentence would name the number of rows
    with pytest.raises(RuntimeError, match=r"^The private side could not answer \(ValueError\); nothing crossed\.$"):
        asked(lambda remote: remote.release("sum", wrong))


def test_another_verb_is_refused():
    served = Served(private_side())
    for message in ((True, "records"), (True,), "release", (True, "release")):
        outcome, *_ = decode(served.reply(encode(message)))
        assert outcome == "failed" and served.failed is not None
    assert decode(served.reply(encode((True, "used")))) == ("answer", {"sum": 0})


@dataclass(frozen=True)
class Claims:
    """Says that it sums, by values of the sender's choice."""

    bound: object
    total: object = None
    rows: object = None
    answer_shape: object = None


class Lenient:
    """Equal to every bound."""

    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize(
    "query",
    [
        Claims(Bound(1.0)),
        BoundedSum(phi(), Lenient(), (6,)),
        object(),
        Bound(1.0),
        per_example(torch.nn.Linear(2, 1), phi(), Lenient()),
    ],
    ids=lambda query: type(query).__name__,
)
def test_what_only_looks_like_a_query_is_refused(query):
    with pytest.raises((WireError, AttributeError)):
        check(query)


def test_queries_of_the_engine_and_of_methods_are_queries():
    for query in (BoundedSum(phi(), Bound(1.0), (6,)), Scatter(2, 1.0), per_example(torch.nn.Linear(2, 1), phi(), 1.0)):
        check(query)
