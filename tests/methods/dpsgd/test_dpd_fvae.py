"""DPD-fVAE: what is charged for a site, and what is learned from all of them."""

from __future__ import annotations

import pytest

from sfumato import Budget, DataSpec, Relation
from sfumato.methods.dpsgd.dpd_fvae import DPDfVAE
from tests.explicit import learned, told_apart
from tests.methods.variants import keeps_the_contract

MNIST = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


@pytest.mark.parametrize("relation", list(Relation))
def test_a_site_is_charged_for_two_points_of_a_ball_under_either_relation(relation):
    plan = DPDfVAE(clip=0.5).plan(MNIST, Budget(1.0))
    decoder = plan.crossings["decoder"]
    assert decoder.held and decoder.event(relation).sensitivity == pytest.approx(1.0, rel=1e-3)
    assert 0.999 < plan.epsilon() <= 1.0
    assert plan.paper["epsilon"] < 1.0  # of a site that comes or goes


def test_fewer_sites_in_a_round_need_less_noise():
    whole, some = (DPDfVAE(share=share).plan(MNIST, Budget(1.0)) for share in (1.0, 0.1))
    assert some.facts["noise"] < whole.facts["noise"] / 3 and some.epsilon() <= 1.0


@pytest.mark.slow
def test_it_keeps_the_contract_where_sites_are_drawn(tmp_path):
    tiny = {"sites": 4, "steps": 6, "site_batch": 2, "local_steps": 1, "warmup": 1, "latent": 3, "hidden": 4}
    keeps_the_contract(DPDfVAE(share=0.5, **tiny), tmp_path)


def test_it_learns():
    sizes = {"sites": 12, "site_batch": 10, "local_steps": 1, "latent": 3, "hidden": 8}
    assert told_apart(learned(DPDfVAE(steps=40, learning_rate=0.02, **sizes))) > 0.9


@pytest.mark.parametrize("bad", [{"sites": 0}, {"share": 0.0}, {"share": 1.5}, {"clip": 0.0}, {"width": 12}])
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        DPDfVAE(**bad)
