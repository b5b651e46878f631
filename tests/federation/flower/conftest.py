"""Processes that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.federation.flower.processes import Processes, processes


@pytest.fixture
def started(tmp_path) -> Iterator[Processes]:
    with processes(tmp_path / "processes") as all_of_them:
        yield all_of_them
