"""The papers' own formulas, for comparison only. Never a guarantee.

Each function returns {"epsilon": ..., "note": ...}; the note begins with `LABEL` and says what is wrong or loose.
Where a paper's epsilon depends on the data it is a `PrivateNumber` and cannot be printed.
"""

from sfumato.accounting.claims.datalens_votes import datalens, datalens_queries
from sfumato.accounting.claims.dp_promise import forward_noise
from sfumato.accounting.claims.dpaf_steps import dpaf, dpaf_step
from sfumato.accounting.claims.dpgan_steps import dpgan
from sfumato.accounting.claims.dpsgd_steps import dpdl, topagg
from sfumato.accounting.claims.evolution import private_evolution
from sfumato.accounting.claims.gs_wgan_draws import gs_wgan, gs_wgan_fix_a, gs_wgan_fix_b, gs_wgan_sound
from sfumato.accounting.claims.label import LABEL, Claim, claim, mironov
from sfumato.accounting.claims.pate_family import (
    g_pate,
    g_pate_sound_mu,
    gnmax,
    lnmax,
    pate_gan,
    pate_gan_independent,
    pate_gan_sound_mu,
)
from sfumato.accounting.claims.projections import dp_swd, projection_sensitivity, swd_bound
from sfumato.accounting.claims.sampled_gaussian import dp_sgd
from sfumato.accounting.claims.survey import mean_embedding, mean_embedding_add_remove, survey_replace_one

__all__ = [
    "LABEL",
    "Claim",
    "claim",
    "datalens",
    "datalens_queries",
    "dp_sgd",
    "dp_swd",
    "dpaf",
    "dpaf_step",
    "dpdl",
    "dpgan",
    "forward_noise",
    "g_pate",
    "g_pate_sound_mu",
    "gnmax",
    "gs_wgan",
    "gs_wgan_fix_a",
    "gs_wgan_fix_b",
    "gs_wgan_sound",
    "lnmax",
    "mean_embedding",
    "mean_embedding_add_remove",
    "mironov",
    "pate_gan",
    "pate_gan_independent",
    "pate_gan_sound_mu",
    "private_evolution",
    "projection_sensitivity",
    "survey_replace_one",
    "swd_bound",
    "topagg",
]
