"""What an evaluation found, in plain words and in numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any

from sfumato.release.statement.numbers import show

# What is measured, and which way is better.
MEASURES = {
    "fid": ("FID", "distance between the two sets as a whole", "lower"),
    "kid": ("KID", "the same, without the bias of small sets", "lower"),
    "precision": ("precision", "share of synthetic images that look real", "higher"),
    "recall": ("recall", "share of real images that the synthetic ones reach", "higher"),
    "density": ("density", "how densely real images surround synthetic ones", "higher"),
    "coverage": ("coverage", "share of real images with a synthetic one nearby", "higher"),
    "inception-score": ("Inception Score", "how clear and how varied the classes are", "higher"),
}
ATTACKS = {
    "full-black-box": "how near the closest synthetic image is (GAN-Leaks)",
    "calibrated": "the same, against how near images come anyway (GAN-Leaks)",
    "partial-black-box": "how well a search of the generator's inputs rebuilds it (GAN-Leaks)",
    "white-box": "how well the opened generator rebuilds it (GAN-Leaks)",
    "logan": "a discriminator of synthetic against other images (LOGAN)",
    "domias": "where synthetic images are denser than others (DOMIAS)",
    "reconstruction": "the nearest image that can be recovered",
    "attribute": "guessing a hidden attribute",
}


def many(count: int, name: str) -> str:
    """A counted noun.

    >>> many(1, "image"), many(2000, "image")
    ('1 image', '2,000 images')
    """
    return f"{show(count)} {name}{'' if count == 1 else 's'}"


def rate(value: float | None) -> str:
    """A share in percent, with a decimal."""
    return "unknown" if value is None else f"{100 * value:.1f} %"


def spread(estimate: Mapping[str, Any]) -> str:
    """Mean and standard deviation over seeds, in percent."""
    values = estimate["values"]
    return rate(estimate["mean"]) if len(values) < 2 else f"{100 * estimate['mean']:.1f} ± {100 * stdev(values):.1f} %"


def interval(estimate: Mapping[str, Any], digits: int = 3, percent: bool = False) -> str:
    """The 95 % interval; one repetition has none, and one without an end is open."""
    if len(estimate["values"]) == 1:
        return "one seed"
    low, high = (
        ("∞" if v is None else f"{100 * v:.1f}" if percent else number(v, digits))
        for v in (estimate["low"], estimate["high"])
    )
    return f"{low} to {high}"


def number(value: float | None, digits: int = 3) -> str:
    """A number in few digits, small ones in full."""
    return "unknown" if value is None else f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e")


def best(trained: Mapping[str, Any]) -> str:
    """The classifier with the largest accuracy after the last step."""
    rows: Mapping[str, Any] = trained["classifiers"]
    return max(rows, key=lambda name: rows[name]["fixed"]["mean"])


def measured_words(sections: Mapping[str, Any]) -> list[str]:
    """What was measured."""
    release = sections["release"]
    data = sections["data"]
    words = [
        f"{many(release['images'], 'synthetic image')}, made by {release['method']}, "
        f"were held against {many(data['train_records'], 'real image')} of {data['train']}."
    ]
    if "utility" in sections:
        words.append(
            "Programs that learn to tell the classes apart were trained on the synthetic images, then asked "
            f"about {many(data['test_records'], 'real image')} kept aside for testing."
        )
    if _is_there(sections, "attacks"):
        words.append("Attackers who know real images tried to tell which of them the release was made from.")
    return words


def useful_words(sections: Mapping[str, Any]) -> list[str]:
    """How useful the synthetic images are."""
    if "utility" not in sections:
        return ["Usefulness was not measured this time."]
    utility = sections["utility"]
    name = best(utility["synthetic"])
    ours, real = (utility[key]["classifiers"][name]["fixed"] for key in ("synthetic", "real"))
    chance = 1 / len(sections["release"]["classes"])
    tried = many(len(utility["synthetic"]["classifiers"]), "classifier")
    words = [
        f"The best of {tried}, {name}, names the right class for {rate(ours['mean'])} of the real test "
        "images. Trained on the real images it reaches "
        f"{rate(real['mean'])}; guessing gives {rate(chance)}."
    ]
    return [*words, _worth(ours["mean"], real["mean"], chance)]


def _worth(ours: float, real: float, chance: float) -> str:
    if real <= chance:
        return "The real images teach it no more than guessing, so this test says nothing about the synthetic ones."
    share = (ours - chance) / (real - chance)
    if share <= 0.05:
        return "Synthetic images teach it little or nothing."
    kept = f"{100 * min(share, 1):.0f} %"
    return f"Of the accuracy above guessing that real images give, the synthetic ones keep about {kept}."


def lead_words(sections: Mapping[str, Any]) -> str:
    """The shortest answer."""
    if "utility" not in sections and not _is_there(sections, "attacks"):
        return " ".join(measured_words(sections))
    parts = useful_words(sections)[-1:] if "utility" in sections else []
    if _is_there(sections, "attacks") and sections["attacks"]["above"]:
        parts.append("An attack did better than the privacy guarantee allows: do not publish this release.")
    elif _is_there(sections, "attacks") and sections["attacks"]["ceiling"]:
        parts.append("No attack did better than the privacy guarantee allows, beyond chance.")
    return " ".join(parts)


def private_words(statement: Mapping[str, Any], sections: Mapping[str, Any]) -> list[str]:
    """How private the release is: the proof first, then what attacks came to."""
    words = [statement["plain_words"]["summary"]]
    if not _is_there(sections, "attacks"):
        return [*words, "No attack was tried this time; the guarantee does not depend on it."]
    section = sections["attacks"]
    tried = [row for row in section["attacks"].values() if row.get("auc")]
    if section["above"]:
        return [
            *words,
            f"{many(len(section['above']), 'attack')} did better than the guarantee allows "
            f"({', '.join(section['above'])}): do not publish this release before that is explained.",
        ]
    if not tried or not section["ceiling"]:
        return [*words, "Attacks were tried, but there is no guarantee to hold them against."]
    most = max(row["auc"]["mean"] for row in tried)
    return [
        *words,
        f"{many(len(tried), 'attack')} did no better than the guarantee allows, beyond chance: the "
        f"strongest has an AUC of {number(most)}, where 0.5 is guessing and at most "
        f"{number(section['ceiling']['auc'])} is possible. "
        "A weak attack proves nothing; the guarantee does.",
    ]


def contained_words(sections: Mapping[str, Any], private: bool) -> list[str]:
    """What on the page is private."""
    if not private:
        return [f"Nothing private: {sections['data']['train']} is a public set, and so are its images below."]
    return [
        "This page shows real images of the private data.",
        "Its numbers were computed from them without noise.",
        *sections["touched"],
    ]


def _is_there(sections: Mapping[str, Any], name: str) -> bool:
    return name in sections and not isinstance(sections[name].get("skipped"), str)


def fidelity_rows(section: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a measure, grouped by feature space."""
    rows = []
    for key, value in section["values"].items():
        measure, _, space = key.partition("/")
        name, meaning, better = MEASURES.get(measure, (measure, "", ""))
        words = {"name": name, "space": space or "classifier", "meaning": meaning, "better": better}
        rows.append(words | {"value": number(value["mean"], 4), "interval": interval(value, 4), "note": value["note"]})
    return rows


def curves(section: Mapping[str, Any]) -> list[tuple[str, Sequence[Any]]]:
    """Attacks that drew a ROC curve."""
    return [(name, row["roc"]) for name, row in section["attacks"].items() if row.get("roc")]
