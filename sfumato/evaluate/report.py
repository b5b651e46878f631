"""report.html of an evaluation: one self-contained page. It shows real images, so that of private data is internal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.evaluate import wording as words
from sfumato.evaluate.drawings import MOST_NAMED, TONES, confusion_svg, roc_svg, shares_of
from sfumato.evaluate.results import Report
from sfumato.release.statement.curve import curve_svg
from sfumato.release.statement.numbers import epsilon, one_in, show

if TYPE_CHECKING:
    from jinja2 import Environment

    from sfumato.evaluate.real import Real
    from sfumato.release import Release

FILE = "report.html"


def write_html(report: Report, release: Release, real: Real, place: str | Path) -> Path:
    """Write the page into the folder of the evaluation; a private one can be read by its owner alone."""
    return write_page(Path(place) / FILE, make_html(report, release, real), report.touches_private)


def make_html(report: Report, release: Release, real: Real) -> str:
    """The page. It loads nothing from anywhere, and runs no script."""
    from sfumato.evaluate import grids

    sections = report.to_json()["sections"]
    statement = release.statement
    fake = release.images
    device = sections["settings"]["device"]
    return render(
        "report.html.j2",
        s=statement,
        about=sections,
        private=report.touches_private,
        command=report.command,
        lead=words.lead_words(sections),
        plain=_plain_words(sections, statement, report.touches_private),
        figures=_figures(sections, statement),
        rows=grids.class_rows(fake.classes, real.train, fake),
        hidden=max(0, len(fake.classes) - grids.MOST_CLASSES),
        mosaics=[("real", grids.mosaic(real.train.pixels)), ("synthetic", grids.mosaic(fake.pixels))],
        near=grids.neighbours(real, fake, device),
        small=max(fake.pixels.shape[2:]) < 64,
        utility=_utility(sections),
        fidelity=_fidelity(sections),
        attacks=_attacks(sections),
        curve=curve_svg(statement["guarantee"]),
    )


def write_page(path: Path, text: str, private: bool) -> Path:
    """A file that appears whole or not at all; a private one can be read by its owner alone."""
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)  # an old one may have other permissions
        kind = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(new, kind, 0o600 if private else 0o666), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        raise InputError(f"{path.parent} cannot be written ({error.strerror}); choose another --out.") from error
    return path


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "show": show,
        "eps": epsilon,
        "one_in": one_in,
        "rate": words.rate,
        "spread": words.spread,
        "interval": words.interval,
        "number": words.number,
        "many": words.many,
    }
    return environment


def render(template: str, **values: Any) -> str:
    """An HTML page; every value is escaped."""
    return _environment().get_template(template).render(**values)


def _plain_words(
    sections: Mapping[str, Any], statement: Mapping[str, Any], private: bool
) -> list[tuple[str, list[str]]]:
    return [
        ("What was measured", words.measured_words(sections)),
        ("How useful it is", words.useful_words(sections)),
        ("How private it is", words.private_words(statement, sections)),
        ("What is private on this page", words.contained_words(sections, private)),
    ]


def _figures(sections: Mapping[str, Any], statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A few numbers for the head of the page."""
    given = statement["guarantee"]
    figures = []
    if (found := sections["headline"]) is not None:
        constant = found["baseline"]
        figures += [
            (words.rate(found["accuracy"]["mean"]), f"accuracy on real test images ({found['classifier']})"),
            (words.rate(constant["accuracy"]), f"by always answering “{constant['class']}”, the commonest class"),
            (words.rate(found["balanced"]["mean"]), f"balanced; guessing gives {words.rate(constant['guessing'])}"),
        ]
        if found["auroc"]:
            figures.append((words.number(found["auroc"]["mean"]), "AUROC; guessing gives 0.5"))
        figures.append((words.rate(found["real"]), f"trained on the real images ({found['real_classifier']})"))
    images = sections["release"]
    figures.append((show(images["distinct"]), f"distinct images among {show(images['images'])}"))
    figures.append((f"ε = {epsilon(given['epsilon'])}", f"at δ = {show(given['delta'])}, one {given['unit']}"))
    values = (sections.get("fidelity") or {}).get("values") or {}
    fid = next((key for key in values if key.startswith("fid/")), None)
    if fid:
        figures.append((words.number(values[fid]["mean"]), f"FID ({fid.partition('/')[2]}); 0 is the same set"))
    return figures


def _utility(sections: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the page says of classifiers; pictures are of the best one."""
    if "utility" not in sections:
        return None
    section = sections["utility"]
    classes = sections["release"]["classes"]
    ours = section["synthetic"]
    name = words.best(section["synthetic"])
    row = ours["classifiers"][name]
    real = section["real"]["classifiers"][name]
    groups = {n: r["groups"] for n, r in ours["classifiers"].items() if r["groups"]}
    return {
        **section,
        **recall_parts(name, row, real, classes),
        "groups": groups,
        "paper": sections["settings"]["protocol"] == "paper",
        "protocol": ours["protocol_means"],
    }


def recall_parts(name: str, row: Any, real: Any, classes: list[str]) -> dict[str, Any]:
    """The recall of each class and which is taken for which, of one classifier beside one trained on real images."""
    named = [(c, row["per_class"][c], real["per_class"][c]) for c in classes if row["per_class"].get(c)]
    return {"best": name, "row": row, "per_class": named[:40], "confusion": _confusion(row["confusion"], classes)}


def _confusion(counts: Any, classes: list[str]) -> dict[str, Any]:
    if len(classes) <= MOST_NAMED:
        return {"svg": confusion_svg(counts, classes), "picture": None}
    import numpy as np

    from sfumato.evaluate.grids import address

    dark = (255 * (1 - shares_of(counts))).astype(np.uint8)
    return {"svg": None, "picture": address(dark[None])}


def _fidelity(sections: Mapping[str, Any]) -> dict[str, Any] | None:
    section = sections.get("fidelity")
    if section is None or isinstance(section.get("skipped"), str):
        return section and {"rows": [], "skipped": {"fidelity": section["skipped"]}, "against": ""}
    return {"rows": words.fidelity_rows(section), "skipped": section["skipped"] or {}, "against": section["against"]}


def _attacks(sections: Mapping[str, Any]) -> dict[str, Any] | None:
    section = sections.get("attacks")
    if section is None or isinstance(section.get("skipped"), str):
        return section and {"skipped": section["skipped"]}
    drawn = words.curves(section)
    ceiling = (section["ceiling"] or {}).get("roc")
    plots = [roc_svg([points for _, points in drawn], ceiling, log=log) for log in (False, True)] if drawn else []
    tones = {name: TONES[at % len(TONES)] for at, (name, _) in enumerate(drawn)}
    return {**section, "skipped": None, "plots": plots, "tones": tones, "words": words.ATTACKS}
