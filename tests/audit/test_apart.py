"""Level 0 in another process."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from sfumato import DPMERF, Budget, DataSpec
from sfumato.audit import apart
from sfumato.errors import AuditFailed
from sfumato.flow.first_audit import EXAMINED

pytestmark = pytest.mark.audited
SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
TINY = DPMERF(features=20, steps=3, batch=4, latent=4, width=8)


def audited(method):
    return apart.level0_apart(EXAMINED, method, method.plan(SPEC, Budget(2.0)), None, "synthesize", device="cpu")


def test_the_audit_is_made_by_a_process_that_holds_nothing():
    report = audited(TINY)
    assert report.verdict == "pass" and not [row for row in report.rows if row.check == "process"]
    assert {"fixed tape", "synthesize: flow"} <= {row.check for row in report.rows}
    (worker,) = apart._WORKER
    assert worker._process.pid != os.getpid() and worker._process.poll() is None


def test_a_method_that_cannot_be_sent_is_audited_here_and_the_report_says_so():
    @dataclass(frozen=True, kw_only=True)
    class Local(DPMERF):
        pass

    method = Local(features=20, steps=3, batch=4, latent=4, width=8)
    report = audited(method)
    (row,) = [row for row in report.rows if row.check == "process"]
    assert "in the process that holds the data" in row.detail


def test_an_audit_that_dies_is_no_pass():
    audited(TINY)
    apart._WORKER[0]._process.kill()
    apart._WORKER[0]._process.wait()
    with pytest.raises(AuditFailed, match="ended before it had an answer"):
        audited(TINY)
    assert audited(TINY).verdict == "pass"
