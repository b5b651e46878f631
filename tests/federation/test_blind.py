"""What a coordinator sees: messages of the same kind, number, order and size whatever the records, and opened sums."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.accounting.tradeoff import count, gaussian_curve
from sfumato.audit.checks.level0 import furthest, worst
from sfumato.audit.gallery.topagg import CROSSING, tally, voting
from sfumato.audit.games.step import Played, play, project
from sfumato.federation.masks import Attempt, Keys, Masks, unmasked
from sfumato.federation.transport import InProcess
from sfumato.privacy.shares import share
from sfumato.remote import wire
from tests.federation.houses import RECORDS, Tape, agreement, learn, sites

SITES = ("a", "b", "c")


class Transcript(InProcess):
    """All that passes between the coordinator and the sites."""

    def __init__(self, answers):
        super().__init__(answers)
        self.seen = []

    def ask(self, requests, timeout=None):
        replies = super().ask(requests, timeout)
        kind = wire.decode(next(iter(requests.values())))["kind"]
        self.seen += [(kind, name, len(requests[name]), replies[name]) for name in requests]
        return replies


def transcript(method, seed):
    agreed = agreement(method)
    taped = {"noise": lambda name: Tape(1 + list(RECORDS).index(name))}
    with sites(agreed, seeds={"north": seed}, **taped) as inner:
        transport = Transcript(inner.answers)
        learn(agreed, transport)
    return transport.seen


@pytest.mark.parametrize("method", ["kernel-votes", "dpgan"])
def test_other_records_change_neither_kind_nor_number_nor_order_nor_size_of_a_message(method):
    one, other = transcript(method, 0), transcript(method, 7)
    assert [(kind, name, asked, len(reply)) for kind, name, asked, reply in one] == [
        (kind, name, asked, len(reply)) for kind, name, asked, reply in other
    ]
    first = [[wire.decode(reply) for kind, _, _, reply in seen if kind == "sum"][0] for seen in (one, other)]
    assert first[0]["heard"] == first[1]["heard"] and first[0]["words"] != first[1]["words"]


class Federated:
    """Votes at three sites, of which one may be missing; the coordinator opens the sum of those that answer."""

    def __init__(self, shares):
        keys = {name: Keys(bytes([i]) * 64) for i, name in enumerate(SITES, 1)}
        publics = {name: key.public for name, key in keys.items()}
        self.masks = {name: Masks(name, key, publics) for name, key in keys.items()}
        self.noise, self.shares, self.turn = Tape(9), shares, 0

    def __call__(self, data):
        """The exact votes lie at the first site; the third has dropped out."""
        self.turn += 1
        attempt = Attempt("run", self.turn, 1)
        exact = tally(data).astype(np.int64)
        hidden = {}
        for name in SITES[:2]:
            steps = exact if name == "a" else np.zeros_like(exact)
            noised = steps + share(exact.shape, CROSSING, self.shares, self.noise)
            hidden[name] = self.masks[name].hide(noised, attempt)
        revealed = {name: self.masks[name].reveal(attempt, SITES[:2]) for name in hidden}
        return unmasked(hidden, revealed).reshape(exact.shape).astype(np.float64)


def game(shares):
    subject = voting("federated", release=Federated(shares), projected=None)
    return play(subject, np.random.default_rng(3), draws=600)


def test_the_opened_sum_keeps_the_claim_with_a_site_missing():
    """Level 1, with a fixed tape: two shares of 1/2 reach sigma."""
    assert game(shares=2).ok


def test_shares_that_reckon_with_sites_that_do_not_answer_are_caught():
    """A planted fault: each site adds 1/8 of the variance, and two answer."""
    assert not game(shares=8).ok


def whole_run(shares, questions=9, runs=150):
    """Level 2: the coordinator adds up all that it opened in a run, along what the canary moves."""
    subject = voting("federated", release=Federated(shares), projected=None)
    pair, _, _ = worst(subject, np.random.default_rng(3))
    one, two = subject.exact(pair.one), subject.exact(pair.two)
    direction = furthest(two - one, subject.queries)
    direction = direction / np.linalg.norm(direction)
    opened = [project(subject, data, None, direction, runs * questions) for data in (pair.one, pair.two)]
    sums = [each.reshape(runs, questions).sum(1) for each in opened]
    threshold = questions * float(((one + two) / 2 * direction).sum())
    claim = gaussian_curve(questions**0.5 * subject.declared[pair.relation] / subject.sigma)
    return Played(count(*sums, threshold, 1e-3), claim, [])


def test_all_that_is_opened_in_a_run_keeps_the_claim_of_the_run():
    assert whole_run(shares=2).ok


def test_a_run_with_too_little_noise_is_caught():
    assert not whole_run(shares=8).ok


def test_with_more_answers_than_needed_there_is_more_noise():
    exact = np.zeros((4000,), np.int64)
    noise = Tape(5)
    spread = [sum(share(exact.shape, CROSSING, 2, noise) for _ in range(many)).std() for many in (2, 3)]
    sigma = CROSSING.mechanism.std(CROSSING.bound)
    assert 0.95 * sigma < spread[0] < 1.05 * sigma < spread[1]
