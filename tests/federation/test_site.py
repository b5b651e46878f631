"""What a site refuses, what it keeps, and what its ledger says."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from sfumato import load
from sfumato.errors import InputError
from sfumato.federation.masks import Keys, fingerprint
from sfumato.federation.site import at_site
from sfumato.ledger.store import Ledger
from sfumato.remote import wire
from tests.federation.houses import RECORDS, Silence, agreement, boxed

AGREED = agreement("dp-merf", dropouts=1)
OTHERS = {name: Keys(bytes([i]) * 64).public for i, name in enumerate(RECORDS, 1)}


class Asking:
    """A coordinator that asks one site alone, whatever it likes."""

    def __init__(self, site, agreed):
        self.site, self.agreed = site, agreed

    def __call__(self, kind, **about):
        return wire.decode(self.site(wire.encode({"kind": kind, "run": "r", **about})))

    def join(self, **changes):
        about = {"agreement": self.agreed.digest, "code": wire.fingerprint()} | changes
        return self("join", **about)

    def meet(self):
        return self("meet", keys=OTHERS | {"north": self.site.keys.public})

    def sum(self, question=1, attempt=1, crossing="embedding"):
        return self("sum", question=question, attempt=attempt, crossing=crossing, query=query(), hear=[], stand={})

    def open(self, question=1, attempt=1, answered=("north", "south"), kind="open"):
        return self(kind, question=question, attempt=attempt, answered=list(answered))


def query():
    """The question that dp-merf asks."""
    from sfumato import Run
    from sfumato.privacy.barrier import Barrier

    class Stop(Exception):
        pass

    class Listening:
        spec, plan = AGREED.spec, AGREED.plan
        odometer = type("Counts", (), {"plan": AGREED.plan, "used": {}})

        def release(self, name, query, *public):
            self.asked = wire.encode((query, public))
            raise Stop

    heard = Listening()
    with pytest.raises(Stop):
        AGREED.made.learn(Barrier.before(heard), Run(device="cpu"))
    return heard.asked


@contextmanager
def north(tmp_path, agreed=AGREED, met=True, **how):
    with at_site(agreed, "north", boxed("north"), ledger=tmp_path / "ledger.sqlite", **how) as site:
        asking = Asking(site, agreed)
        if met:
            asking.join()
            asking.meet()
        yield asking


def run_of(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger, ledger._store.reading() as db:
        return [tuple(row) for row in db.execute("SELECT run, status FROM runs")]


def test_an_attempt_is_answered_once_and_another_one_under_other_masks(tmp_path):
    with north(tmp_path, noise=Silence()) as ask:
        first = ask.sum()["words"]
        assert "was answered before" in ask.sum()["refused"]
        assert ask.sum(attempt=2)["words"] != first  # the same sum
        assert "was answered before" in ask.sum(attempt=1)["refused"]
        assert "was answered before" in ask.sum(question=0, attempt=9)["refused"]


def test_one_attempt_of_a_question_is_opened_and_only_to_the_same_answers(tmp_path):
    with north(tmp_path) as ask:
        ask.sum()
        assert ask.open(kind="ready") == {"ready": True}
        seeds = ask.open()
        assert set(seeds["pairs"]) == {"isle"}
        assert ask.open() == seeds  # a reply that was lost
        assert "with other answers" in ask.open(answered=RECORDS)["refused"]
        assert "was opened before" in ask.sum(attempt=2)["refused"]
        assert "not the one that was answered last" in ask.open(attempt=2)["refused"]


def test_an_attempt_that_another_one_followed_is_never_opened(tmp_path):
    with north(tmp_path) as ask:
        ask.sum(attempt=1)
        ask.sum(attempt=2)
        assert "not the one that was answered last" in ask.open(attempt=1)["refused"]
        assert "own" in ask.open(attempt=2)


def test_a_question_that_is_asked_again_is_the_one_that_was_charged(tmp_path):
    with north(tmp_path) as ask:
        ask.sum()
        assert "was of another crossing" in ask.sum(attempt=2, crossing="labels")["refused"]


def test_what_only_looks_like_a_question_is_refused(tmp_path):
    with north(tmp_path) as ask:
        for odd in (wire.encode((AGREED.plan.crossings["embedding"].bound, ())), b"nothing"):
            about = {"question": 1, "attempt": 1, "crossing": "embedding", "query": odd, "hear": [], "stand": {}}
            assert "Expected a" in ask("sum", **about)["refused"]
        assert ask.site._side.odometer.used == {"embedding": 0}


def test_a_sum_of_too_few_sites_is_not_opened(tmp_path):
    with north(tmp_path) as ask:
        ask.sum()
        assert "Expected 2 answers" in ask.open(answered=["north"])["refused"]
        assert "this site's among them" in ask.open(answered=["south", "isle"])["refused"]
        assert "found others" in ask.open(answered=["north", "nobody"])["refused"]


@pytest.mark.parametrize(
    ("changes", "says"), [({"agreement": "x"}, "another plan"), ({"code": "x"}, "another version of sfumato")]
)
def test_a_coordinator_with_another_plan_or_code_is_refused(tmp_path, changes, says):
    with north(tmp_path, met=False) as ask:
        assert says in ask.join(**changes)["refused"]


def test_a_site_takes_part_in_one_run_with_the_keys_that_it_met(tmp_path):
    with north(tmp_path) as ask:
        assert "another run" in ask("join", run="other", agreement=AGREED.digest, code=wire.fingerprint())["refused"]
        assert "keys of the sites changed" in ask("meet", keys=OTHERS)["refused"]
        assert "kind" in ask("give")["refused"]
    with north(tmp_path / "b", met=False) as ask:
        ask.join()
        assert "not those of the sites in the plan" in ask("meet", keys=OTHERS)["refused"]
        assert "not known yet" in ask.sum()["refused"]


def test_a_pinned_key_must_be_the_one_that_comes(tmp_path):
    heard = []
    with north(
        tmp_path, met=False, pins={"south": fingerprint(OTHERS["south"]), "isle": "0"}, told=heard.append
    ) as ask:
        ask.join()
        assert "key of isle is not the one" in ask.meet()["refused"]
    assert any(fingerprint(OTHERS["south"]) in line for line in heard)


def test_after_a_crash_a_site_answers_nothing_twice_and_opens_what_it_had_sent(tmp_path):
    class Crash(Exception):
        pass

    with pytest.raises(Crash), north(tmp_path) as ask:
        ask.sum()
        raise Crash
    ((run, status),) = run_of(tmp_path)
    assert status == "begun"
    with north(tmp_path, resume=run) as ask:
        assert "was answered before" in ask.sum()["refused"]
        seeds = ask.open()
        assert len(seeds["own"]) == 32
        assert ask.site._side.odometer.used == {"embedding": 1}
        ask("end")
    assert run_of(tmp_path) == [(run, "committed")]


def test_what_ends_before_the_first_answer_is_given_back(tmp_path):
    with pytest.raises(RuntimeError), north(tmp_path):
        raise RuntimeError
    assert [status for _, status in run_of(tmp_path)] == ["returned"]


def test_records_that_are_not_those_of_the_plan_are_refused_to_their_custodian(tmp_path):
    few = load((np.zeros((5, 8, 8), np.uint8), np.zeros(5, np.int64)))
    for name, box, says in [
        ("north", few, "records of north as 40, and the data have 5"),
        ("west", few, "no site 'west'; it has north, south, isle"),
    ]:
        with pytest.raises(InputError, match=says), at_site(AGREED, name, box):
            pass
    named = replace(AGREED, spec=replace(AGREED.spec, classes=("0", "1")))
    with pytest.raises(InputError, match="found 2 too"), at_site(named, "isle", boxed("isle")):
        pass
