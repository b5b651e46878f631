"""Public values that a coordinator must not lose."""

from __future__ import annotations

import pytest

from sfumato.federation.log import Log


@pytest.mark.parametrize("lasting", [True, False])
def test_what_is_put_is_got_until_it_is_dropped(tmp_path, lasting):
    log = Log(tmp_path / "log" if lasting else None)
    assert log.get("a") is None
    log.put("a", b"one")
    log.put("a", b"two")
    assert log.get("a") == b"two"
    assert (Log(tmp_path / "log").get("a") == b"two") == lasting
    log.drop("a")
    log.drop("a")
    assert log.get("a") is None
