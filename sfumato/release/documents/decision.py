"""The box that opens a release report: what whoever decides about publishing must know, and what is still to do.

All of it follows from the statement, the images and the key that signs, so that `sfumato verify` writes it again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.release.documents.pictures import distinct
from sfumato.release.files.sign import Signature
from sfumato.release.statement.numbers import epsilon, one_in, show, up
from sfumato.types import Images

GOOD = "good"
CARE = "care"
PLAIN = "plain"
STRONG = 0.75  # an attacker who is right no more often than this is half way to a coin toss
WEAK = 0.9  # one who is right so often is no longer held back much
TOO_FEW = "too few data"
MOST_NAMED = 20


@dataclass(frozen=True)
class Line:
    """One fact to decide by: what it is about, what it says, and whether it gives cause for care."""

    name: str
    text: str
    state: str = PLAIN


def decision(statement: dict[str, Any], images: Images, signed: Signature | None) -> list[Line]:
    """The facts, in the order in which a custodian asks for them."""
    return [
        _unit(statement),
        _strength(statement),
        _signed(signed),
        _ledger(statement),
        _classes(statement),
        _images(images),
        _enough(statement),
        _audit(statement),
        *_publication(statement),
        Line(
            "Usefulness",
            "Not part of this release: it is measured on real images. A noisy accuracy that may be published comes in "
            "a folder of its own, by sfumato evaluate --publish-accuracy.",
        ),
    ]


def _unit(statement: dict[str, Any]) -> Line:
    if statement["guarantee"]["unit"] == "person":
        return Line("Who is protected", "Each person, with all of their images together.", GOOD)
    text = "One record (an image and its label) at a time. A person with several images is protected less."
    return Line("Who is protected", text, PLAIN if statement["declared_public"]["data_public"] else CARE)


def _strength(statement: dict[str, Any]) -> Line:
    given = statement["guarantee"]
    success = statement["plain_words"]["attacker_success"]
    text = (
        f"Epsilon = {epsilon(given['epsilon'])}: {statement['plain_words']['summary']} Whether one {given['unit']} is "
        f"in the data changes the odds of any outcome at most {_factor(given['epsilon'])}, but for a chance of "
        f"{one_in(given['delta'])}."
    )
    return Line("How strongly", text, CARE if success >= WEAK else GOOD if success <= STRONG else PLAIN)


def _factor(value: float) -> str:
    """e to the epsilon, as odds.

    >>> _factor(1.0), _factor(50.0)
    ('2.719-fold', 'more than a million-fold, which is no bound in practice')
    >>> _factor(10.0)
    '22,027-fold'
    """
    factor = math.exp(min(value, 100.0))
    if factor > 1e6:
        return "more than a million-fold, which is no bound in practice"
    return f"{math.ceil(factor):,}-fold" if factor > 1000 else f"{show(up(factor), 6)}-fold"


def _signed(signed: Signature | None) -> Line:
    if signed is None:
        return Line("Signed", "Not signed: nobody can tell that it comes from you, or that it was not changed.", CARE)
    who = f"{signed.signer}, " if signed.signer else ""
    return Line("Signed", f"By {who}with the key {signed.public_key}.", GOOD)


def _ledger(statement: dict[str, Any]) -> Line:
    others = statement["other_releases"]
    return Line("Ledger", others["summary"], CARE if others["runs"] else PLAIN)


def _classes(statement: dict[str, Any]) -> Line:
    names = statement["declared_public"]["classes"]
    more = f" and {show(len(names) - MOST_NAMED)} more" if len(names) > MOST_NAMED else ""
    shown = ", ".join(names[:MOST_NAMED])
    return Line(
        "Class names",
        f"{shown}{more}. They are published as they are in the data, and the guarantee does not cover them: the "
        "custodian must have seen each of them.",
    )


def _images(images: Images) -> Line:
    once = distinct(images)
    fewest = int(np.bincount(images.labels, minlength=len(images.classes)).min(initial=len(images)))
    rare = f" The rarest class has {show(fewest)}." if len(images.classes) > 1 else ""
    if once == len(images):
        return Line("Images", f"{show(once)}, all distinct.{rare}", PLAIN if fewest else CARE)
    times = len(images) / once
    return Line(
        "Images",
        f"{show(len(images))} files, but {show(once)} distinct images: each is there about {times:.0f} times. "
        f"A larger count brings no more of them.{rare}",
        CARE,
    )


def _enough(statement: dict[str, Any]) -> Line:
    few = [words for words in statement["deviations"]["warnings"] if TOO_FEW in words.lower()]
    if few:
        return Line("Enough data", " ".join(few), CARE)
    return Line("Enough data", f"No warning for {statement['declared_public']['size']}.")


def _audit(statement: dict[str, Any]) -> Line:
    audit = statement["audit"]
    return Line("Audit", audit["summary"], GOOD if audit.get("verdict") == "pass" else CARE)


def _publication(statement: dict[str, Any]) -> list[Line]:
    """What the publisher says, where anything is said."""
    said = statement.get("publication", {})
    names = {"license": "Licence", "title": "Title", "contact": "Whom to ask"}
    return [Line(name, said[key], GOOD) for key, name in names.items() if key in said]


def to_do(statement: dict[str, Any], signed: Signature | None) -> list[str]:
    """What is left to do before the folder is published."""
    data = "" if statement["declared_public"]["data_public"] else ", on data that stay inside"
    steps = [
        "Look at the class names and the images below: is there anything that may not be told?",
        f"Measure how useful it is{data}: sfumato evaluate RELEASE --data DATA.",
    ]
    if statement["guarantee"]["unit"] != "person" and not statement["declared_public"]["data_public"]:
        steps.append("Make sure that nobody has more than one image in the data; otherwise start again with --person.")
    if signed is None:
        steps.append("Decide whether it may go out unsigned; sfumato keygen makes a key for synthesize --sign.")
    else:
        steps.append("Tell people your public key by another road than this folder.")
    if "license" not in statement.get("publication", {}):
        steps.append("Choose a licence, by synthesize --license or as a file LICENSE: none is chosen for you.")
    return [
        *steps,
        "Fill in, in a copy, what deployment.yaml leaves open: who publishes, what for, and when.",
        "Run sfumato verify on the folder as it will go out, and keep working files and evaluations inside.",
    ]
