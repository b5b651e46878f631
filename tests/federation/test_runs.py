"""Whole runs: a release that verifies, ledgers that are right after any failure, and a release that was written."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from sfumato.errors import InputError
from sfumato.federation import runs
from sfumato.federation.coordinator import SitesMissing
from sfumato.federation.transport import InProcess
from sfumato.methods import names
from sfumato.release.files.verify import verify
from sfumato.remote import wire
from tests.federation.houses import RECORDS, agreement, boxed, learn, sites


def states(folder):
    """The status of every run in each site's ledger."""
    found = {}
    for name in RECORDS:
        with sqlite3.connect(folder / f"{name}.sqlite") as db:
            found[name] = [status for (status,) in db.execute("SELECT status FROM runs")]
    return found


@pytest.mark.parametrize("method", ["datalens", "kernel-votes", "dpgan"])
def test_uneven_and_skewed_sites_learn_together(tmp_path, method):
    agreed = agreement(method, dropouts=1)
    with sites(agreed, tmp_path) as transport:
        release = runs.coordinate(agreed, transport, tmp_path / "release", count=4)
    assert len(release.images) == 4 and verify(tmp_path / "release").ok
    assert states(tmp_path) == dict.fromkeys(RECORDS, ["committed"])
    assert not runs.state_of(tmp_path / "release").exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in names() if name != "dp-sinkhorn"])
def test_every_method_of_sums_is_federated_as_it_is(method):
    agreed = agreement(method, epsilon=1.0)
    with sites(agreed) as transport:
        _, far = learn(agreed, transport)
        assert far.odometer.complete and not transport.raised


class Lost(InProcess):
    """All sites are lost after so many requests."""

    def __init__(self, answers, after):
        super().__init__(answers)
        self.after = after

    def ask(self, requests, timeout=None):
        self.after -= 1
        return super().ask(requests) if self.after >= 0 else {}


def test_a_run_that_failed_after_its_first_crossing_stays_spent_and_goes_on(tmp_path):
    agreed = agreement()
    with sites(agreed, tmp_path) as transport:
        with pytest.raises(SitesMissing):
            runs.coordinate(agreed, Lost(transport.answers, 7), tmp_path / "release", count=4)
        assert states(tmp_path) == dict.fromkeys(RECORDS, ["begun"])
        runs.coordinate(agreed, transport, tmp_path / "release", count=4)
    assert states(tmp_path) == dict.fromkeys(RECORDS, ["committed"])


class Crash(Exception):
    pass


class Listening(InProcess):
    """Hears the kinds of all requests, and crashes at one of them."""

    def __init__(self, answers, crash=None):
        super().__init__(answers)
        self.crash, self.asked = crash, []

    def ask(self, requests, timeout=None):
        self.asked.append(wire.decode(next(iter(requests.values())))["kind"])
        if self.asked[-1] == self.crash:
            raise Crash
        return super().ask(requests)


def test_a_release_that_was_written_is_not_made_again(tmp_path):
    agreed = agreement("dp-merf")
    with sites(agreed, tmp_path) as transport:
        with pytest.raises(Crash):
            runs.coordinate(agreed, Listening(transport.answers, "end"), tmp_path / "release", count=4)
        again = Listening(transport.answers)
        release = runs.coordinate(agreed, again, tmp_path / "release", count=4)
    assert again.asked == ["join", "meet", "end"] and len(release.images) == 4
    assert states(tmp_path) == dict.fromkeys(RECORDS, ["committed"])


def test_a_method_that_needs_public_images_is_refused(tmp_path):
    with pytest.raises(InputError, match="dp-mepf needs public images or a public network"):
        runs.coordinate(agreement("dp-mepf"), InProcess({}), tmp_path / "release")


def test_without_flower_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(InputError, match="make federation-env"):
        runs.carrier()


def test_a_site_without_data_is_named():
    with pytest.raises(InputError, match="no data for south, isle"):
        runs.simulate(agreement(), {"north": boxed("north")}, "release")
