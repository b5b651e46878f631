"""The privacy statement: twelve points, generated from the plan that was charged, never typed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.release.files.command import CLASSIFIERS
from sfumato.release.files.names import base_name, hide_paths, scrub
from sfumato.release.statement import statement_points
from sfumato.release.statement.numbers import epsilon, one_in, show
from sfumato.release.statement.wording import MU, opinion_words, plain_words

if TYPE_CHECKING:
    from sfumato.accounting.accountant import Profile

STATEMENT_FORMAT = "sfumato-privacy/1"
TUNING_OUTCOMES = ("not charged", "charged by", "tuned on")
TITLES = {
    "guarantee": "Guarantee",
    "coverage": "What is covered",
    "mechanisms": "Noisy queries",
    "accountant": "Accountant",
    "declared_public": "Assumptions declared public",
    "tuning": "Tuning",
    "other_releases": "Other releases from the same data",
    "randomness": "Randomness",
    "deviations": "Deviations and limitations",
    "audit": "Audit",
    "reproducibility": "Reproducibility",
    "plain_words": "Plain words",
}


def public_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without local paths: the data go by their last path component."""
    clean: dict[str, Any] = scrub(plan, plan["data"]["name"])
    # Class names are declared public as they are; one that looks like a path must still match its images.
    clean["data"] |= {"name": base_name(plan["data"]["name"]), "classes": list(plan["data"]["classes"])}
    return clean


def configuration(plan: dict[str, Any]) -> dict[str, Any]:
    """What fixes a run: method, settings, data and budget."""
    budget = {key: plan["guarantee"][key] for key in ("epsilon", "delta", "relation", "unit")}
    return {"method": plan["method"], "settings": plan["settings"], "data": plan["data"], "budget": budget}


def configuration_hash(plan: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON of the configuration."""
    text = json.dumps(configuration(plan), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def make_statement(
    plan: dict[str, Any],
    *,
    released: list[str],
    account: dict[str, Any] | None,
    noise: dict[str, Any],
    public_data: dict[str, Any] | None,
    tuning: str,
    audit: dict[str, Any] | None,
    version: str,
) -> dict[str, Any]:
    """The statement of one run; `plan` is `Plan.to_json()`, and the ledger charged what it says.

    `tuning` starts with one of three outcomes: "not charged", "charged by METHOD" or "tuned on PUBLIC DATA".
    """
    if not tuning.lower().startswith(TUNING_OUTCOMES):
        raise ValueError(f"Expected tuning to start with {', '.join(TUNING_OUTCOMES)}, found tuning={tuning!r}.")
    if public_data is not None and not str(public_data.get("provenance") or "").strip():
        raise InputError("Public data came without provenance; say in --provenance where they are from.")
    plan = public_plan(plan)
    plan["guarantee"].setdefault("advantage", _advantage(plan))
    public_data = scrub(public_data, str((public_data or {}).get("name", "")))
    return from_public_plan(
        plan,
        released=released,
        account=account,
        noise=noise,
        public_data=public_data,
        tuning=hide_paths(tuning),
        audit=audit,
        version=version,
    )


def _advantage(plan: dict[str, Any]) -> float | None:
    """How far above guessing an attacker can get, where mu does not tell it and the events do."""
    if plan["guarantee"].get("mu") is not None or not plan.get("events"):
        return None
    from sfumato.accounting.accountant import profile
    from sfumato.accounting.events import event_from_json

    return advantage_of(profile([event_from_json(event) for event in plan["events"]]))


def advantage_of(profile: Profile) -> float | None:
    """The total variation distance of the two worlds, delta at epsilon = 0; None where mu says it already."""
    return None if profile.mu is not None else min(1.0, profile.delta(0.0))


def from_public_plan(
    plan: dict[str, Any],
    *,
    released: list[str],
    account: dict[str, Any] | None,
    noise: dict[str, Any],
    public_data: dict[str, Any] | None,
    tuning: str,
    audit: dict[str, Any] | None,
    version: str,
) -> dict[str, Any]:
    """The statement of a plan that names no local place; a pure function, so that anyone can repeat it."""
    return {
        "format": STATEMENT_FORMAT,
        "guarantee": statement_points.guarantee(plan),
        "coverage": statement_points.coverage(released),
        "mechanisms": statement_points.mechanisms(plan),
        "accountant": statement_points.accountant(plan, version),
        "declared_public": statement_points.declared_public(plan, public_data),
        "tuning": {"summary": tuning},
        "other_releases": statement_points.other_releases(plan, account),
        "randomness": statement_points.randomness(plan, noise),
        "deviations": statement_points.deviations(plan),
        "audit": statement_points.audit(audit, noise),
        "reproducibility": _reproducibility(plan, version),
        "plain_words": plain_words(plan["guarantee"], plan.get("curve") or (), plan["data"], _made(plan)),
    }


def _made(plan: dict[str, Any]) -> str:
    """What a run makes, in words."""
    return "classifier" if plan["method"] in CLASSIFIERS.values() else "synthetic images"


def restated(statement: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The statement of a generator refitted with other public settings; the guarantee is that of the measurement."""
    origin = statement["reproducibility"]
    plan = {"method": origin["method"], **origin["configuration"], "settings": settings, "labels": origin["labels"]}
    plan["guarantee"] = origin["configuration"]["budget"]
    version = origin["software"].removeprefix("sfumato ")
    tuning = "not charged: refitted from the released measurement, which costs nothing however often it is done"
    return statement | {
        "declared_public": statement["declared_public"] | {"settings": settings},
        "reproducibility": _reproducibility(plan, version),
        "tuning": {"summary": tuning},
    }


def _reproducibility(plan: dict[str, Any], version: str) -> dict[str, Any]:
    digest = configuration_hash(plan)
    return {
        "summary": f"sfumato {version}, method {plan['method']}, configuration {digest[:12]}.",
        "software": f"sfumato {version}",
        "method": plan["method"],
        "configuration": configuration(plan),
        "configuration_hash": digest,
        "labels": plan.get("labels"),
        "data_hash": "Kept private: a hash of the data would let anyone confirm a guess of it.",
        "noise_seeds": "None exist: the noise cannot be replayed, so a second run gives "
        f"{'another classifier' if _made(plan) == 'classifier' else 'other images'}.",
    }


def to_markdown(statement: dict[str, Any]) -> str:
    """PRIVACY.md: the statement for people."""
    from sfumato.release.documents.render import render_text

    return render_text(
        "privacy.md.j2", s=statement, titles=TITLES, show=show, eps=epsilon, one_in=one_in, opinion=opinion_words, mu=MU
    )
