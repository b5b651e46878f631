"""The survey's taxonomy beside the registry."""

from __future__ import annotations

from collections import Counter

from sfumato.bench import survey
from sfumato.bench.survey_numbers import PUBLISHED, ours
from sfumato.methods.base import TIERS
from sfumato.methods.registry import find, names

# Table 1 once more, read off the survey by barrier, privacy notion, sensitivity, generative and DP framework.
PRINTED = (
    [("B1", "replace-one", "global", "distribution matching", "Gaussian")]
    + [("B1", "replace-one", "smooth", "distribution matching", "Gaussian")]
    + [("B1", "replace-one", "global", "distribution matching", "Gaussian")] * 2
    + [("~B1", "-", "-", "energy-based model", "-")]
    + [("B1", "replace-one", "global", "distribution matching", "Gaussian")] * 2
    + [("B1", "add-remove", "global", "diffusion", "Gaussian")]
    + [("B2", "add-remove", "global", "GAN", "DP-SGD")] * 3
    + [("B2", "add-remove", "-", "GAN", "empirical DP")]
    + [("B2", "both", "local", "GAN", "PATE")]
    + [("B2", "add-remove", "global", "GAN", "DP-SGD")] * 6
    + [("B2", "add-remove", "global", "distribution matching", "DP-SGD")]
    + [("B2", "add-remove", "global", "GAN", "DP-SGD")]
    + [("B3", "both", "global", "GAN", "DP-SGD")]
    + [("B3", "both", "local", "GAN", "PATE")]
    + [("B3", "both", "global/local", "GAN", "PATE")]
    + [("B3", "both", "global", "distribution matching", "DP-SGD")]
    + [
        ("B4", "add-remove", "global", model, "DP-SGD")
        for model in ("VAE", "VAE, AE+", "AE+", "VAE", "flow", "VAE", *["diffusion"] * 3, "flow")
    ]
)
# Where a generative framework lies in figure 2; of the critics of distribution matching the figure has both kinds.
AXES = {
    "GAN": [("implicit", "learnable", "distribution-wise")],
    "distribution matching": [
        ("implicit", critic, objective)
        for critic in ("static", "learnable")
        for objective in ("distribution-wise", "point-wise")
    ],
    "VAE": [("explicit", "approximate")],
    "diffusion": [("explicit", "approximate")],
    "flow": [("explicit", "tractable")],
}
LEARNED = {"pearl", "private-set"}  # critics that are trained, among those that match distributions
POINTS = {"private-set"}  # the survey's own example of a point-wise objective
# The survey goes by the diffusion model that DPSDA asks for images; here none is trained, and a set is what comes out.
ELSEWHERE = {"private-evolution": ("implicit", "static", "point-wise")}


def test_every_approach_of_the_table_is_named_with_its_state():
    rows = survey.rows()
    assert len(rows) == 35
    counts = Counter(row["state"] for row in rows)
    assert set(counts) == {"runs", "recipe", "refused"}
    assert counts["refused"] == 2 and counts["runs"] >= 18
    assert all(row["here"] and not row["here"].startswith("none") for row in rows)


def test_numbers_stand_beside_each_approach():
    rows = {row["approach"].split(" (")[0]: row for row in survey.rows()}
    assert rows["DP-MERF"]["measured"].endswith("at 10") and rows["DP-MERF"]["published"] == "81.3, DPImageBench"
    assert rows["Triastcyn and Faltings 2018"]["measured"] == "-"
    assert all(row["measured"] and row["published"] for row in rows.values())
    assert not set(PUBLISHED) - set(rows)


def test_the_numbers_of_recipes_are_theirs_alone():
    assert ours("dpgan-alzantot-") == "10.2, one seed at 10" != ours("dpgan")
    assert ours("no-such-recipe-") == "not measured"


def test_the_table_is_the_one_that_is_printed():
    rows = survey.printed()
    assert [row[1:6] for row in rows] == PRINTED
    named = {row[0].split(" (")[0]: row for row in rows}
    assert len(named) == 35
    assert named["DP-SWD"][3] == "smooth" and named["Triastcyn and Faltings 2018"][5] == "empirical DP"
    assert named["GS-WGAN"][5] == named["DP-Sinkhorn"][5] == "DP-SGD" and named["DataLens"][3] == "global/local"


def test_methods_are_classed_as_the_survey_classes_them():
    found = {row[-1]: row for row in survey.printed() if row[-1] in names()}
    assert len(found) >= 18
    for name, (_, barrier, _, _, model, privacy, _) in found.items():
        method = find(name)
        assert (method.site.name, method.framework.removesuffix(" mechanism")) == (barrier, privacy), name
        assert method.axes in ([ELSEWHERE[name]] if name in ELSEWHERE else AXES[model]), name
        if model == "distribution matching":
            assert (method.axes[1] == "learnable") == (name in LEARNED), name
            assert (method.axes[2] == "point-wise") == (name in POINTS), name


def test_tiers_of_implicit_models_are_not_asked_of_explicit_ones():
    for name in names():
        axes = find(name).axes
        assert any(axes in some for some in AXES.values()), name
        assert len(TIERS[axes[0]]) == len(axes)


def test_a_method_that_is_not_here_is_missing():
    assert survey.state("no-such-method") == ("missing", "no method no-such-method here")
