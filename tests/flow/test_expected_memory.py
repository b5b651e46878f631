"""What a rehearsal says of the memory of a run."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from sfumato import DPMERF, Budget, DataSpec, InputError, Run
from sfumato.api import budget_of, make_plan
from sfumato.flow import expected_memory
from sfumato.flow.approval import Approval
from sfumato.flow.expected_memory import Gauge, Memory, Page, Scales, giga
from sfumato.flow.rehearsal import rehearse
from sfumato.flow.request import Request, carry_out

LARGE = Memory("cpu", 16e9, (Page(1e9, 22e9 / 1024, 1024), Page(2e9, 1e6, 64)))


def test_a_page_of_the_run_follows_from_two_widths():
    assert Page.through({32: 2e9, 512: 3e9}, 1024).needs == pytest.approx(2e9 + 992 / 480 * 1e9)
    assert Page.through({32: 2e9}, 1024).needs == 2e9  # of one width, all is there whatever the rows are
    assert Page.through({32: 2e9, 64: 1.9e9}, 1024).needs == 2e9  # an allocator may have kept what it had


def test_what_does_not_fit_is_refused_with_the_microbatch_that_does():
    assert LARGE.needs == pytest.approx(23e9) and not LARGE.fits
    assert LARGE.refusal("dpdm", 1024) == (
        "dpdm needs about 23 GB of memory on cpu with --microbatch 1024, and 16 GB are free: "
        "take --microbatch 672. Nothing was spent."
    )
    narrow = replace(LARGE, pages=tuple(replace(page, rows=min(page.rows, 672)) for page in LARGE.pages))
    assert narrow.fits


@pytest.mark.parametrize("changes", [{"other": 20e9}, {"features": 15.5e9}, {"have": 0.5e9}])
def test_where_no_microbatch_helps_the_sizes_of_the_method_must(changes):
    less = replace(LARGE, **changes)
    assert less.microbatch == 0 and "lower the method's own sizes" in less.refusal("dpdm", 1024)


def test_teachers_are_told_apart_since_they_may_lie_elsewhere():
    held = Memory("cuda", 40e9, (Page(1e9, 0, 32),), held=26.7e9)
    assert held.fits and "27 GB for what teachers learn" in str(held) and "takes longer" not in str(held)
    assert replace(held, have=16e9).fits and "takes longer" in str(replace(held, have=16e9))


def test_features_that_are_kept_for_each_record_count():
    assert replace(LARGE, features=3e9).needs == pytest.approx(26e9)


def test_scales_keep_the_peak_of_each_width():
    gc.collect()
    scales = Scales("cpu", have=1e12)
    with scales.page("sum", 32, 1024):
        first = np.ones(2**21)
    with scales.page("sum", 64, 1024):
        second = np.ones(2**24)  # 134 MB
    found = scales.found()
    assert found is None or found.pages[0].row * 32 >= 0.5 * (second.nbytes - first.nbytes)


def test_what_was_in_use_before_is_left_out():
    records = np.ones(2**24)  # 134 MB, as if they were private
    scales = Scales("cpu", have=1e12)
    with scales.page("sum", 32, 32):
        pass
    found = scales.found()
    assert found is None or found.needs < records.nbytes / 2


def test_a_limit_of_a_container_is_heeded(tmp_path, monkeypatch):
    monkeypatch.setattr(expected_memory, "GROUP", tmp_path)
    free = Gauge("cpu").have()
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert Gauge("cpu").have() > free / 2
    (tmp_path / "memory.max").write_text("3001000\n")
    assert Gauge("cpu").have() == 3e6


def test_a_rehearsal_tells_the_memory_of_its_pages():
    spec = DataSpec("made up", 60_000, (1, 8, 8), ("0", "1"))
    method = DPMERF(features=20, steps=2, batch=4, latent=4, width=8)
    found = rehearse(method, make_plan(method, spec, Budget(1.0)), Run(device="cpu")).memory
    if found is None:
        pytest.skip("this system keeps no peak of memory that can be set back")
    assert len(found.pages) == 1 and found.pages[0].rows == 1024
    assert 0 <= found.needs < 2**33 and found.to_json()["fits"] == found.fits


@pytest.mark.approved
def test_a_run_that_does_not_fit_spends_nothing_unless_forced(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (900, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "scans.npz", images=images, labels=np.arange(900) % 3)
    settings = {"features": "20", "steps": "2", "batch": "4", "latent": "4", "width": "8"}
    asked = Request(
        data=str(tmp_path / "scans.npz"),
        method="dp-merf",
        epsilon=2.0,
        settings=settings,
        count=5,
        out=str(tmp_path / "release"),
        device="cpu",
    )
    monkeypatch.setattr(Gauge, "have", lambda self: -1.0)
    if not Gauge("cpu").works:
        pytest.skip("this system keeps no peak of memory that can be set back")
    with pytest.raises(InputError, match="dp-merf needs about .* GB of memory .* Nothing was spent"):
        carry_out(asked, approval=Approval(yes=True))
    assert budget_of(asked.data)["history"] == []
    carry_out(asked, approval=Approval(yes=True, force=True))
    assert len(budget_of(asked.data)["history"]) == 1


def test_bytes_are_told_in_giga():
    assert [giga(x) for x in (23e9, 9.96e9, 0)] == ["23 GB", "10.0 GB", "0.1 GB"]
