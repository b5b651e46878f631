"""A federation behind a barrier: the sums of the pooled records, whoever drops out, and nothing asked twice."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

from sfumato import Run, load
from sfumato.errors import InputError, Unfinished
from sfumato.federation.coordinator import Federation, SitesMissing
from sfumato.federation.transport import InProcess
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound
from sfumato.privacy.odometer import Odometer
from sfumato.remote import wire
from tests.federation.houses import RECORDS, Everyone, Silence, Tape, agreement, learn, sites
from tests.made_up import arrays

QUIET = {"noise": lambda name: Silence(sorted(RECORDS).index(name)), "microbatch": 1}


class Flaky(InProcess):
    """Loses a site where `lost(kind, turn, name)` says so; `turn` counts the requests of a kind."""

    def __init__(self, answers, lost=lambda kind, turn, name: False):
        super().__init__(answers)
        self.lost = lost
        self.asked = []

    def ask(self, requests, timeout=None):
        kind = wire.decode(next(iter(requests.values())))["kind"]
        turn = self.asked.count(kind)
        self.asked.append(kind)
        self.silent = {name for name in requests if self.lost(kind, turn, name)}
        return super().ask(requests, timeout)


class Heard:
    """What stands behind a barrier, and its answers."""

    def __init__(self, inner):
        self.inner, self.spec, self.odometer, self.noise = inner, inner.spec, inner.odometer, inner.noise
        self.hold, self.train = inner.hold, inner.train
        self.answers = []

    def release(self, name, query, *public):
        self.answers.append(self.inner.release(name, query, *public))
        return self.answers[-1]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def answers(agreed, inner):
    """Of a whole run, with the generator."""
    heard = Heard(inner)
    found = agreed.made.learn(Barrier.before(heard), Run(device="cpu", odometer=heard.odometer))
    return heard.answers, found


def pooled(agreed, **how):
    """The same method on all records in one place, without noise."""
    barrier = Barrier(load(arrays()), agreed.spec, Odometer(agreed.plan), noise=Silence(), microbatch=1, **how)
    return answers(agreed, behind(barrier))


def federated(agreed, transport, **how):
    far = Federation(agreed, transport, **how)
    far.join()
    return answers(agreed, far)


def test_without_noise_a_sum_of_records_is_that_of_the_pooled_set_to_the_bit():
    agreed = agreement("dp-merf")
    with sites(agreed, **QUIET) as transport:
        (one,), net = federated(agreed, transport)
    (other,), whole = pooled(agreed)
    assert torch.equal(one, other) and same(net, whole)


def test_without_noise_a_sum_of_clipped_gradients_is_that_of_the_pooled_set_up_to_rounding():
    agreed = agreement("dpgan")
    with sites(agreed, lot=Everyone(), **QUIET) as transport:
        (one, *_), _ = federated(agreed, transport)
    (other, *_), _ = pooled(agreed, lot=Everyone())
    grid = agreed.plan.crossings["critic"].bound.grid
    assert (one - other).abs().max() <= 60 * grid < other.abs().max() / 1000


def test_of_one_site_the_votes_are_those_of_the_pooled_set_to_the_bit():
    agreed = agreement(trust="trusted", records={"all": 60})
    with sites(agreed, noise=Silence(), microbatch=1) as transport:
        one, net = federated(agreed, transport, noise=Silence())
    other, whole = pooled(agreed)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True)) and same(net, whole)


def test_masks_vanish_under_either_trust():
    found = []
    for trust in ("trusted", "curious"):
        with sites(agreed := agreement(trust=trust), **QUIET) as transport:
            found.append(federated(agreed, transport, **({"noise": Silence()} if trust == "trusted" else {})))
    (one, net), (other, whole) = found
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True)) and same(net, whole)


@lru_cache
def undisturbed(dropouts=0):
    agreed = agreement(dropouts=dropouts)
    with sites(agreed, **QUIET) as transport:
        return federated(agreed, transport)[1]


def disturbed(agreed, lost, **how):
    with sites(agreed, **QUIET) as inner:
        transport = Flaky(inner.answers, lost)
        return learn(agreed, transport, **how)[0], transport


def test_a_site_lost_between_the_rounds_costs_an_attempt_and_changes_nothing():
    agreed = agreement()
    net, transport = disturbed(agreed, lambda kind, turn, name: (kind, turn, name) == ("ready", 1, "south"))
    assert transport.asked[:9] == ["join", "meet", "sum", "ready", "open", "sum", "ready", "sum", "ready"]
    assert same(net, undisturbed())


def test_a_site_lost_at_the_opening_is_asked_for_its_seeds_again():
    agreed = agreement()
    net, transport = disturbed(agreed, lambda kind, turn, name: (kind, turn, name) == ("open", 1, "isle"))
    assert transport.asked.count("open") == transport.asked.count("sum") + 1
    assert same(net, undisturbed())


def test_any_site_may_be_missing_from_any_question_where_the_plan_says_one():
    agreed = agreement(dropouts=1)
    names = list(RECORDS)
    net, transport = disturbed(agreed, lambda kind, turn, name: kind == "sum" and name == names[turn % 3])
    assert transport.asked.count("sum") == transport.asked.count("open") >= 3
    assert not transport.raised


def test_a_late_site_catches_up_on_what_its_teachers_missed():
    """South is away for a question; then it is sent both updates, and all is as if it had been there."""
    agreed = agreement(dropouts=1)
    with sites(agreed, **QUIET) as inner:
        transport = Flaky(inner.answers, lambda kind, turn, name: (kind, turn, name) == ("sum", 1, "south"))
        learn(agreed, transport)
        heard = [transport.answers[name].teachers.heard for name in RECORDS]
    assert heard[0] == heard[1] == heard[2] != {}


def test_more_missing_sites_than_the_plan_allows_stop_the_run_and_it_goes_on_from_its_folder(tmp_path):
    agreed = agreement(dropouts=1)
    with sites(agreed, **QUIET) as inner:
        transport = Flaky(inner.answers, lambda kind, turn, name: kind == "sum" and turn > 1 and name != "isle")
        with pytest.raises(SitesMissing, match="Fewer than 2 of 3 sites answer; nothing more is spent"):
            learn(agreed, transport, tmp_path)
        net, far = learn(agreed, Flaky(inner.answers), tmp_path)
        assert far.odometer.complete
    assert same(net, undisturbed(1))


def test_a_coordinator_killed_at_an_opening_opens_it_when_it_is_back(tmp_path):
    agreed = agreement()
    with sites(agreed, **QUIET) as inner:
        transport = Flaky(inner.answers, lambda kind, turn, name: kind == "open" and turn > 0 and name == "south")
        with pytest.raises(SitesMissing, match="south was lost while the sum of question"):
            learn(agreed, transport, tmp_path)
        again = Flaky(inner.answers)
        net, _ = learn(agreed, again, tmp_path)
    assert again.asked[:3] == ["join", "meet", "open"]  # not a new attempt
    assert same(net, undisturbed())


def test_a_coordinator_that_goes_on_asks_nothing_twice(tmp_path):
    agreed = agreement()
    with sites(agreed, **QUIET) as inner:
        transport = Flaky(inner.answers)
        learn(agreed, transport, tmp_path)
        (tmp_path / "checkpoint.safetensors").unlink()  # all from the log, then
        again = Flaky(inner.answers)
        net, _ = learn(agreed, again, tmp_path)
    assert again.asked == ["join", "meet"]
    assert same(net, undisturbed())


def test_a_changed_plan_is_not_taken_up(tmp_path):
    agreed = agreement()
    with sites(agreed, **QUIET) as transport:
        Federation(agreed, transport, tmp_path)
        with pytest.raises(InputError, match="plan changed since this run began"):
            Federation(agreement(dropouts=1), transport, tmp_path)


def test_sites_with_another_plan_refuse_before_anything_is_spent():
    with sites(agreement(), **QUIET) as transport, pytest.raises(InputError, match="has another plan"):
        Federation(agreement(dropouts=1), transport).join()


def test_a_site_that_is_not_there_at_the_start_is_named():
    with sites(agreement(), **QUIET) as transport:
        transport.silent.add("isle")
        with pytest.raises(SitesMissing, match="and isle did not answer"):
            Federation(agreement(), transport).join()


def test_a_refusal_after_the_first_crossing_is_no_wrong_input():
    agreed = agreement()
    with sites(agreed, **QUIET) as transport:
        far = Federation(agreed, transport)
        far.join()
        other = Federation(agreed, transport)  # another run
        other._last = {name: [0, 0] for name in RECORDS}
        with pytest.raises(Unfinished, match="another run"):
            agreed.made.learn(Barrier.before(other), Run(device="cpu", odometer=other.odometer))


def test_a_value_of_a_whole_sample_is_no_sum_over_sites():
    agreed = agreement()
    with sites(agreed, **QUIET) as transport, pytest.raises(ValueError, match="one value of a whole sample"):
        Federation(agreed, transport).release("votes", BatchValue(lambda x, y: x.mean(0), BatchBound(1.0), (64,)))


@pytest.mark.parametrize(("missing", "least", "most"), [("isle", 0.9, 1.1), (None, 1.1, 1.35)])
def test_with_a_site_missing_the_noise_of_an_opened_sum_reaches_sigma_and_otherwise_exceeds_it(missing, least, most):
    """Under fixed tapes: the first answer with noise, less the same without. Two shares of 1/2 are 1, three are 3/2."""
    agreed = agreement(dropouts=1)
    found = []
    for kind in (Tape, Silence):
        with sites(agreed, noise=lambda name, kind=kind: kind(sorted(RECORDS).index(name)), microbatch=1) as inner:
            transport = Flaky(inner.answers, lambda what, turn, name: what == "sum" and name == missing)
            found.append(federated(agreed, transport)[0][0])
    sigma = agreed.plan.facts["sigma"]
    assert least * sigma < (found[0] - found[1]).std() < most * sigma
