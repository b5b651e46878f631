"""Every test has a ledger, a folder of runs and a cache of its own, and computes on one thread.

Methods of the package have audits in tests of their own; elsewhere the audit before a run passes them at once, unless a
test is marked `audited`. Methods of a test's own are audited everywhere. Tests have few records and nobody at a
terminal: what a run asks for beforehand is waved through, unless a test is marked `approved`.
"""

from __future__ import annotations

import os

import pytest

from sfumato.flow.approval import Approval

os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the environment of a federation does without
    pass
else:  # a busy machine is no failure
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SFUMATO_LEDGER", str(home / "ledger.sqlite"))
    monkeypatch.setenv("SFUMATO_RUNS", str(home / "runs"))
    monkeypatch.setenv("SFUMATO_CACHE", str(home / "cache"))


@pytest.fixture(autouse=True)
def _audited_elsewhere(request, monkeypatch):
    if request.node.get_closest_marker("audited") is None:
        monkeypatch.setattr("sfumato.audit.apart.level0_apart", _passed_if_ours)


def _passed_if_ours(examine, method, plan, public, verb, *, device):
    from sfumato.audit import apart
    from sfumato.audit.report import Report

    if type(method).__module__.startswith("sfumato."):
        return Report(plan.method, ())
    return apart._named(examine)(method, plan, public, verb, device)


ADMIT = Approval.admit


@pytest.fixture(autouse=True, scope="session")
def _waved_through():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Approval, "admit", lambda self, proposal: None)
        yield


@pytest.fixture(autouse=True)
def _approved(request, monkeypatch):
    if request.node.get_closest_marker("approved") is not None:
        monkeypatch.setattr(Approval, "admit", ADMIT)


@pytest.fixture
def folder(tmp_path):
    """An empty folder for a data set."""
    (tmp_path / "set").mkdir()
    return tmp_path / "set"
