"""Teachers that learn by numbered updates, are saved on the way, and go on after a crash as if nothing had been."""

from __future__ import annotations

import pytest

from tests.federation.houses import RECORDS, Silence, agreement, learn, sites
from tests.federation.test_coordinator import QUIET, Flaky, same, undisturbed


class Crash(BaseException):
    pass


def quiet(first):
    return QUIET | {"noise": lambda name: Silence(first + sorted(RECORDS).index(name)), "save_every": 1}


def test_a_federation_that_fell_as_a_whole_goes_on_to_the_same_end(tmp_path):
    """After the second question all are gone; other keys would deal the records anew if the old were not restored."""
    agreed = agreement()

    def fall(kind, turn, name):
        if (kind, turn) == ("sum", 2):
            raise Crash
        return False

    with pytest.raises(Crash), sites(agreed, tmp_path, **quiet(0)) as inner:
        names = {name: site.run for name, site in inner.answers.items()}
        learn(agreed, Flaky(inner.answers, fall), tmp_path / "state")
    with sites(agreed, tmp_path, resume=names, **quiet(50)) as inner:
        assert inner.answers["isle"].teachers.known() == {"heard": {}, "saved": {0: 2}}
        again = Flaky(inner.answers)
        net, _ = learn(agreed, again, tmp_path / "state")
    assert again.asked.count("open") == 1  # the third question alone
    assert same(net, undisturbed())


def test_updates_that_every_site_has_saved_are_forgotten(tmp_path):
    agreed = agreement()
    with sites(agreed, tmp_path, **quiet(0)) as inner:
        learn(agreed, inner, tmp_path / "state")
    assert not list((tmp_path / "state").glob("train-*"))


def test_updates_that_a_site_may_need_again_are_kept(tmp_path):
    agreed = agreement()
    with sites(agreed, tmp_path, **QUIET) as inner:
        learn(agreed, inner, tmp_path / "state")
    assert len(list((tmp_path / "state").glob("train-0-*"))) == 3
