"""The survey's mean-embedding sensitivities and its conversion between relations, as printed."""

from __future__ import annotations

from sfumato.accounting.claims.label import Claim, claim, mironov


def mean_embedding(sigma: float, delta: float, *, records: int) -> Claim:
    """DP-MERF as printed: the mean of unit-norm features has sensitivity 2/m, noise sigma/m, one release.

    `sigma` is the noise on the sum. The number of records cancels, which is why the formula is sound as far as it goes.
    """
    sensitivity = 2 / records
    reason = (
        "sensitivity 2/m under replace-one with public m, Renyi accounting with the 2017 conversion; "
        "sound but loose, and stated for another relation than add-remove"
    )
    return claim(mironov(sensitivity / (sigma / records), delta), reason, sensitivity=sensitivity)


def mean_embedding_add_remove(sigma: float, delta: float, *, records: int) -> Claim:
    """The survey's bound for add-remove: the mean of unit-norm features has sensitivity 2/(m+1)."""
    sensitivity = 2 / (records + 1)
    reason = (
        "unsound: sensitivity 2/(m+1) under add-remove with noise scaled by the private m, so that two neighbours have "
        "noise of different variance and the Gaussian formula does not apply; release the sum instead"
    )
    return claim(mironov(sensitivity / (sigma / records), delta), reason, sensitivity=sensitivity)


def survey_replace_one(epsilon: float, delta: float) -> Claim:
    """Replace-one from add-remove as the survey prints it: (2 epsilon, delta)."""
    reason = "unsound: group privacy gives (2 epsilon, (1 + e^epsilon) delta), not (2 epsilon, delta)"
    return claim(2 * epsilon, reason, delta=delta)
