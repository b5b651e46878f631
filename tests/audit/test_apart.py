"""Level 0 in another process."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

from sfumato import DPMERF, Budget, DataSpec
from sfumato.audit import apart
from sfumato.data.public import PublicImages
from sfumato.errors import AuditFailed
from sfumato.types import Images

pytestmark = pytest.mark.audited
SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
TINY = DPMERF(features=20, steps=3, batch=4, latent=4, width=8)


def test_the_audit_is_made_by_a_process_that_holds_nothing():
    report = apart.level0_apart(TINY, TINY.plan(SPEC, Budget(2.0)))
    assert report.verdict == "pass" and not [row for row in report.rows if row.check == "process"]
    assert {"fixed tape", "synthesize: flow"} <= {row.check for row in report.rows}
    (worker,) = apart._WORKER
    assert worker._process.pid != os.getpid() and worker._process.poll() is None


def test_a_method_that_cannot_be_sent_is_audited_here_and_the_report_says_so():
    @dataclass(frozen=True, kw_only=True)
    class Local(DPMERF):
        pass

    method = Local(features=20, steps=3, batch=4, latent=4, width=8)
    report = apart.level0_apart(method, method.plan(SPEC, Budget(2.0)))
    (row,) = [row for row in report.rows if row.check == "process"]
    assert "in the process that holds the data" in row.detail


def test_an_audit_that_dies_is_no_pass():
    apart.level0_apart(TINY, TINY.plan(SPEC, Budget(2.0)))
    apart._WORKER[0]._process.kill()
    apart._WORKER[0]._process.wait()
    with pytest.raises(AuditFailed, match="ended before it had an answer"):
        apart.level0_apart(TINY, TINY.plan(SPEC, Budget(2.0)))
    assert apart.level0_apart(TINY, TINY.plan(SPEC, Budget(2.0))).verdict == "pass"


def test_large_images_are_looked_at_smaller():
    large = DataSpec("made up", 60, (3, 64, 64), ("0", "1"))
    assert apart._looked_at(TINY, TINY.plan(large, Budget(2.0))).data.shape == (3, 16, 16)
    assert apart._looked_at(TINY, TINY.plan(SPEC, Budget(2.0))).data.shape == (1, 8, 8)


def test_public_images_are_looked_at_as_small_as_the_records():
    pixels = np.zeros((4, 1, 28, 28), np.uint8)
    public = PublicImages(Images(pixels, np.zeros(4, np.int64)), "made up")
    assert apart._cut(public, (1, 28, 28), (1, 16, 16)).images.pixels.shape == (4, 1, 16, 16)
    assert apart._cut(public, (1, 8, 8), (1, 8, 8)) is public and apart._cut(None, (1, 8, 8), (1, 8, 8)) is None
