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
NAMED = 10  # classes whose recall is told one by one
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


def interval(estimate: Mapping[str, Any], digits: int = 3, percent: bool = False, always: bool = False) -> str:
    """The 95 % interval; one repetition has none unless it is `always` there, and one without an end is open."""
    if len(estimate["values"]) == 1 and not always:
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


def headline(sections: Mapping[str, Any]) -> dict[str, Any] | None:
    """The few numbers to judge usefulness by, of the best classifier; None where usefulness was not measured."""
    if "utility" not in sections:
        return None
    utility = sections["utility"]
    release = sections["release"]
    # The best on real images, which may be another one: a weak classifier would flatter the synthetic images.
    return headline_of(utility["synthetic"], utility["real"], release["images"], release["distinct"])


def headline_of(
    trained: Mapping[str, Any], real: Mapping[str, Any], images: int | None = None, distinct: int | None = None
) -> dict[str, Any]:
    """The same of what was `trained`, beside the best that was trained on `real` images."""
    name = best(trained)
    other = best(real)
    row = trained["classifiers"][name]
    return {
        "classifier": name,
        "accuracy": row["fixed"],
        "test_error": row["test_error"],
        "baseline": trained["baseline"],
        "margin": row["margin"],
        "balanced": row["balanced"],
        "auroc": row["auroc"],
        "recall": {kind: None if value is None else value["mean"] for kind, value in row["per_class"].items()},
        "real": real["classifiers"][other]["fixed"]["mean"],
        "real_classifier": other,
        "images": images,
        "distinct": distinct,
        "verdict": against_baseline(row["margin"], trained["baseline"]),
    }


def against_baseline(margin: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    """Whether a classifier is better than the trivial answer, beyond what chance in the test images explains."""
    constant = f"always answering '{baseline['class']}', the commonest class ({rate(baseline['accuracy'])})"
    if margin["low"] > 0:
        return f"Better than {constant}."
    if margin["high"] < 0:
        return f"Worse than {constant}: the images are of no use for this task."
    return f"Not shown to be better than {constant}: the test images cannot tell the two apart."


def measured_words(sections: Mapping[str, Any]) -> list[str]:
    """What was measured."""
    release = sections["release"]
    data = sections["data"]
    words = [
        f"{images_words(release['images'], release['distinct'])}, made by {release['method']}, "
        f"were held against {many(data['train_records'], 'real image')} of {data['train']}."
    ]
    if "utility" in sections:
        words.append(
            "Programs that learn to tell the classes apart were trained on the synthetic images, then asked "
            f"about {many(data['test_records'], 'real image')}{_of_persons(data)} kept aside for testing."
        )
    if _is_there(sections, "attacks"):
        words.append("Attackers who know real images tried to tell which of them the release was made from.")
    if sections["left_out"]:
        *gaps, way = sections["left_out"]
        words.append(f"Left out to be quick: {'; '.join(gaps)}. {way}")
    return words


def images_words(images: int, distinct: int) -> str:
    """So many images, and how many of them are not repetitions.

    >>> images_words(10_000, 500), images_words(20, 20)
    ('10,000 synthetic images (500 distinct, the rest are repetitions)', '20 synthetic images, all distinct')
    """
    told = ", all distinct" if distinct == images else f" ({show(distinct)} distinct, the rest are repetitions)"
    return many(images, "synthetic image") + told


def _of_persons(data: Mapping[str, Any]) -> str:
    return f" of {many(data['test_persons'], 'person')}" if data.get("test_persons") else ""


def useful_words(sections: Mapping[str, Any]) -> list[str]:
    """How useful the synthetic images are: first against the trivial answer, last against real images."""
    found = sections.get("headline")
    if found is None:
        return ["Usefulness was not measured this time."]
    tried = many(len(sections["utility"]["synthetic"]["classifiers"]), "classifier")
    best_of = "The classifier tried" if tried.startswith("1 ") else f"The best of {tried}"
    return [
        *judged_words(f"{best_of}, {found['classifier']},", found),
        f"Trained on the real images, the best ({found['real_classifier']}) reaches {rate(found['real'])}.",
        _worth(found["accuracy"]["mean"], found["real"], found["baseline"]["accuracy"]),
    ]


def judged_words(who: str, found: Mapping[str, Any]) -> list[str]:
    """Accuracy, the trivial answer, balanced accuracy, AUROC and recall of a classifier."""
    area = f"; the AUROC is {number(found['auroc']['mean'])} (guessing: 0.5)" if found["auroc"] else ""
    return [
        f"{who} names the right class for {rate(found['accuracy']['mean'])} of the real test images, give or take "
        f"{100 * found['test_error']:.1f} points for their number.",
        found["verdict"],
        f"Balanced accuracy, the mean over classes, is {rate(found['balanced']['mean'])} "
        f"(guessing: {rate(found['baseline']['guessing'])}){area}.",
        recall_words(found["recall"]),
    ]


def classifier_words(sections: Mapping[str, Any]) -> list[str]:
    """How good a released classifier is."""
    found = sections["headline"]
    beside = f"A CNN that was trained on the real images without privacy reaches {rate(found['real'])}."
    return [*judged_words(f"The classifier, {found['classifier']},", found), beside]


def recall_words(recalls: Mapping[str, float | None]) -> str:
    """The recall of each class; of many classes the weakest ones."""
    known = {name: value for name, value in recalls.items() if value is not None}
    if len(known) <= NAMED:
        return f"Recall by class: {', '.join(f'{name} {rate(value)}' for name, value in known.items())}."
    weakest = sorted(known, key=lambda name: known[name])[:3]
    return f"The classes recalled least: {', '.join(f'{name} {rate(known[name])}' for name in weakest)}."


def _worth(ours: float, real: float, trivial: float) -> str:
    if real <= trivial:
        return (
            "Real images teach no more than the commonest class, so this test says nothing about the synthetic images."
        )
    share = (ours - trivial) / (real - trivial)
    if share <= 0.05:
        return "Of what real images teach beyond the commonest class, the synthetic ones keep little or nothing."
    kept = f"{100 * min(share, 1):.0f} %"
    return f"Of what real images teach beyond the commonest class, the synthetic ones keep about {kept}."


def lead_words(sections: Mapping[str, Any]) -> str:
    """The shortest answer."""
    if "utility" not in sections and not _is_there(sections, "attacks"):
        return " ".join(measured_words(sections))
    parts = [useful_words(sections)[at] for at in (1, -1)] if "utility" in sections else []
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
