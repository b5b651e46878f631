"""On a GPU, with the flags that ship: what one record adds to a sum does not depend on what else is on its page."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.rows import SPECS, Page, precisions, questions, sampled, tf32

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("size", list(SPECS))
@pytest.mark.parametrize("name", ["dp-nf", "dp-vae", "dpaf", "dpdm", "dpgan", "ndpdc", "p3gm", "private-set"])
def test_a_row_is_the_same_to_the_bit_whatever_else_is_on_the_page(name, size):
    ((_, method),) = sampled([name])
    found = questions(method, SPECS[size], "cuda")
    assert found and torch.backends.cudnn.enabled
    for asked in found.values():
        for precision, query, allowed in precisions(asked.query):
            with tf32(allowed):
                moved = Page(replace(asked, query=query), SPECS[size], "cuda").moved(160)
            assert moved["fillings"] == 0, (precision, moved)
            assert moved["places"] < 2.0**-10, (precision, moved)  # what sampled sums declare


def test_every_method_that_samples_is_named_here():
    marks = test_a_row_is_the_same_to_the_bit_whatever_else_is_on_the_page.pytestmark
    named = next(mark.args[1] for mark in marks if mark.args[0] == "name")
    assert sorted(name for name, _ in sampled([]) if name != "dp-sinkhorn") == named
