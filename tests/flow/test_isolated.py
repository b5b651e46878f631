"""A method in a process of its own: the same results to the bit, and nothing of a record in it."""

from __future__ import annotations

import json
import os
import signal
import threading
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sfumato import Budget, Run, load, synthesize
from sfumato.api import budget_of
from sfumato.errors import AuditFailed, InputError, Interrupted, OverBudget, RankLost
from sfumato.flow.isolated import GET_DUMPABLE, STATED, Isolated, spawned, undumpable
from sfumato.flow.make import make_method
from sfumato.flow.method_process import work
from sfumato.flow.request import Request, _synthesis
from sfumato.methods import find
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.odometer import Odometer
from sfumato.release.files.verify import verify
from sfumato.run.progress import Recorder
from tests.cli.test_cli import call
from tests.flow.prying import Prying, marked
from tests.made_up import arrays
from tests.methods.test_contract import SPEC, TINY, Taped, make, planned
from tests.remote.tape import Tape
from tests.test_snapshot import WAYS, way

LOOKED_AT = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a system without /proc")


class InThread:
    """The other side in a thread of this process: quick, for what does not need two."""

    def __init__(self, theirs):
        from multiprocessing.connection import Connection

        own = Connection(os.dup(theirs.fileno()))
        self._thread = threading.Thread(target=self._work, args=(own,))
        self._thread.start()

    @staticmethod
    def _work(own):
        with own:
            work(own)

    def kill(self):
        """It ends by itself."""

    def send_signal(self, number):
        raise AssertionError(number)

    def wait(self):
        self._thread.join()


def learn(method, isolated=None, run=None, data=None, tape=None):
    """A whole tiny run under one tape of noise, or of answers."""
    plan = planned(method)
    run = run or Run(device="cpu", progress=Recorder(), odometer=Odometer(plan))
    how = {"microbatch": 16, "noise": Tape(), "tick": run.tick}
    barrier = Barrier(load(data or arrays()), SPEC, run.odometer, **how)
    barrier = Barrier.before(Taped(behind(barrier), tape)) if tape else barrier
    net = (isolated or method).learn(barrier, run)
    return net, run


def same(one, two):
    return all(torch.equal(a, two.state_dict()[key]) for key, a in one.state_dict().items())


EVERY = [*sorted(TINY), *WAYS]
QUICK = ("dp-merf", "dpdm plain", "datalens", "p3gm")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in EVERY])
def test_an_isolated_run_is_the_same_to_the_bit(name):
    method = way(name)
    (net, run), (other, apart) = learn(method), learn(method, Isolated(method, start=InThread))
    assert same(net, other) and type(net) is type(other)
    assert np.array_equal(net.sample(9, seed=3).pixels, other.sample(9, seed=3).pixels)
    assert apart.progress.lines == run.progress.lines
    assert dict(apart.odometer.used) == dict(run.odometer.used) and apart.odometer.complete
    assert all(torch.equal(apart.kept[key], value) for key, value in run.kept.items())
    apart.finished()
    one, two = (r.pictures["preview"].snapshots() if r.pictures else None for r in (run, apart))
    assert one is None or (np.array_equal(one.pixels, two.pixels) and one.facts() == two.facts())


@LOOKED_AT
def test_a_method_that_looks_for_records_finds_them_unless_it_is_isolated():
    method = Prying(**TINY["dp-merf"])
    ordinary = learn(method, data=marked(60))[1].made["found"].tolist()
    isolated = learn(method, Isolated(method), data=marked(60))[1].made["found"].tolist()
    assert all(ordinary), ordinary
    assert isolated == [0, 0, 0]


def test_the_data_process_is_closed_to_others_while_the_method_runs():
    prctl = CDLL(None).prctl
    before = prctl(GET_DUMPABLE, 0, 0, 0, 0)
    with undumpable():
        assert prctl(GET_DUMPABLE, 0, 0, 0, 0) == 0
    assert prctl(GET_DUMPABLE, 0, 0, 0, 0) == before


def test_one_use_too_many_is_refused_by_the_data_process():
    method = make("dp-merf")
    run = Run(device="cpu", odometer=Odometer(planned(method)))
    run.odometer.charge("embedding")
    with pytest.raises(OverBudget):
        learn(method, Isolated(method, start=InThread), run)


class Keeps(find("dp-merf")):
    """Keeps something that the barrier never returned."""

    def learn(self, barrier, run, public=None):
        run.once("mine", lambda: torch.zeros(3))
        return super().learn(barrier, run, public)


def test_what_is_kept_is_checked_by_the_data_process():
    method = Keeps(**TINY["dp-merf"])
    run = learn(method, Isolated(method, start=InThread))[1]
    with pytest.raises(AuditFailed, match="'mine'"):
        run.finished()


class Fails(find("dp-merf")):
    def learn(self, barrier, run, public=None):
        raise KeyError("nothing here")


def test_a_failure_of_the_method_is_raised_where_the_data_are():
    method = Fails(**TINY["dp-merf"])
    with pytest.raises(RuntimeError, match="KeyError: 'nothing here'"):
        learn(method, Isolated(method, start=InThread))


def test_several_ranks_are_refused():
    method = make("dp-merf")
    run = Run(device="cpu", odometer=Odometer(planned(method)))
    run.ranks = type("Two", (), {"size": 2})()
    with pytest.raises(InputError, match="--isolate"):
        Isolated(method).learn(Barrier(None, SPEC, run.odometer), run)


class AtStep(Recorder):
    """Does something once so many steps were taken."""

    def __init__(self, step, act):
        super().__init__()
        self.step, self.act = step, act

    def advance(self, done, note=""):
        super().advance(done, note)
        if note.startswith("epsilon") and done == self.step:
            self.act()


def capturing(found):
    def start(theirs):
        found.append(spawned(theirs))
        return found[-1]

    return start


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("name", ["datalens", "dpdm", "dp-merf", "kernel-votes"])
def test_an_isolated_run_that_was_stopped_goes_on_as_if_it_had_not_been(name, how, tmp_path):
    method, started = make(name), []
    whole = learn(method, tape=1)[0]

    def run(progress):
        return Run(device="cpu", folder=tmp_path, progress=progress, odometer=Odometer(planned(method)), every=0.0)

    def act():
        if how == "kill":
            started[0].send_signal(signal.SIGKILL)
        else:
            first._stop.set()

    first = run(AtStep(3, act))
    with pytest.raises(RankLost if how == "kill" else Interrupted):
        learn(method, Isolated(method, start=capturing(started)), first, tape=1)
    again = run(Recorder())
    done = again.memory()["step"]["done"]
    assert 0 < done < len(first.progress.lines)
    resumed, again = learn(method, Isolated(method), again, tape=1)
    assert again.odometer.complete and same(whole, resumed)
    assert (tmp_path / "preview.png").exists() == (name != "dp-merf")  # which shows nothing on its way


def children():
    return [int(pid) for pid in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()]


@pytest.mark.slow
@LOOKED_AT
def test_a_killed_method_is_charged_once_and_taken_up_again(tmp_path):
    method, budget = find("dpgan")(**TINY["dpgan"]), Budget(2.0)
    ledger, out, data = tmp_path / "ledger.sqlite", tmp_path / "out", load(arrays())

    def kill():
        for child in children():
            if b"method_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)

    how = {"ledger": ledger, "out": out, "isolate": True, "count": 6}
    with pytest.raises(RankLost):
        synthesize(method, data, budget, Run(device="cpu", every=0.0, progress=AtStep(2, kill)), **how)
    (folder,) = Path(os.environ["SFUMATO_RUNS"]).iterdir()
    release = synthesize(method, data, budget, Run(device="cpu"), **how, resume=folder.name)
    assert release.statement["randomness"]["process"] == STATED
    assert verify(out).ok
    (charged,) = budget_of(data, ledger=ledger)["history"]
    assert charged["status"] == "committed"


def test_a_release_says_that_the_method_was_apart_and_verifies(tmp_path):
    method = replace(make("dp-merf"))
    release = synthesize(method, "digits", Budget(5.0), Run(device="cpu"), count=6, isolate=True, out=tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "privacy.json").read_text())
    assert stated["randomness"]["process"] == release.statement["randomness"]["process"] == STATED
    assert STATED in (tmp_path / "out" / "PRIVACY.md").read_text()
    assert verify(tmp_path / "out").ok


def test_a_request_is_isolated_and_its_public_line_does_not_say_so(tmp_path):
    asked = Request(data="digits", method="dp-merf", epsilon=1.0, isolate=True, out=str(tmp_path / "out"))
    spec = load("digits").spec
    assert _synthesis(asked, make_method("dp-merf"), spec).isolate
    assert "isolate" not in asked.command()


@pytest.mark.slow
def test_the_command_line_isolates_and_a_config_repeats_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels, labels = arrays()
    np.savez("set.npz", images=pixels, labels=labels)
    tiny = [text for key, value in TINY["dp-merf"].items() for text in ("--set", f"{key}={value}")]
    line = ("--method", "dp-merf", "--epsilon", "5", "--count", "6", *tiny, "--isolate", "--yes", "--force")
    status, _, err = call("synthesize", "set.npz", *line, "--out", "one", "--json")
    assert status == 0, err
    assert "isolate: true" in Path("one-run.yaml").read_text()
    another = ("--out", "two", "--ledger", "other.sqlite", "--yes", "--force", "--json")
    status, _, err = call("synthesize", "--config", "one-run.yaml", *another)
    assert status == 0, err
    assert json.loads(Path("two/privacy.json").read_text())["randomness"]["process"] == STATED
    assert verify("two").ok


@pytest.mark.slow
def test_a_rehearsal_that_fails_in_the_other_process_spends_nothing(tmp_path):
    method = find("dp-mepf")(**TINY["dp-mepf"] | {"network": "vgg16"})
    with pytest.raises(InputError):
        synthesize(method, load(arrays()), Budget(2.0), Run(device="cpu"), isolate=True, ledger=tmp_path / "ledger")
    assert not list(Path(os.environ["SFUMATO_RUNS"]).glob("*"))
