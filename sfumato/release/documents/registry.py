"""deployment.yaml: a draft record in the shape of the public registry of differential privacy deployments (OpenDP)."""

from __future__ import annotations

import re
from typing import Any

from sfumato.release.documents.yaml import Blank, to_yaml
from sfumato.release.files.schema import RECORD, listed
from sfumato.release.statement.numbers import epsilon, show, up
from sfumato.release.statement.wording import MU

HEAD = """\
# A draft record for the Differential Privacy Deployments Registry (registry.opendp.org), generated from privacy.json.
# What the software cannot know is null; whoever publishes this release fills it in.
"""


def make_record(statement: dict[str, Any], count: int) -> str:
    """The record of a release with so many images."""
    data = statement["declared_public"]
    origin = statement["reproducibility"]
    record = {
        "url_slug": _slug(f"{data['data_name']} synthetic {origin['method']}"),
        "deployment": {
            "basic": _basic(statement, count),
            "dp_variant": _variant(statement),
            "privacy_loss": _loss(statement),
            "deployment_model": _model(statement),
            "implementation": _implementation(statement),
            "administrative": {
                "status": "Draft",
                "registry_authors": [Blank("who files this record")],
                "tier": 3,
            },
        },
    }
    return HEAD + to_yaml(listed("deployment.yaml", record, RECORD))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "synthetic-images"


def _basic(statement: dict[str, Any], count: int) -> dict[str, Any]:
    data = statement["declared_public"]
    origin = statement["reproducibility"]
    return {
        "name": statement.get("publication", {}).get("title") or f"{data['data_name']}, synthetic ({origin['method']})",
        "data_curators": [
            {
                "data_curator_name": Blank("who publishes this"),
                "data_curator_type": Blank("Government, Industry or Nonprofit"),
            }
        ],
        "description": f"{show(count)} synthetic images ({data['image_size']}) in {show(len(data['classes']))} classes "
        f"and the generator that made them, by {origin['software']} with the method {origin['method']}.",
        "intended_use": Blank("what the images are for"),
        "data_product_type": "Synthetic data",
        "data_product_region": Blank("which region the data describe"),
        "data_product_sector": Blank("Technology, Healthcare, Education, Government, Energy or Finance"),
        "publication_date": Blank("YYYY-MM-DD"),
    }


def _variant(statement: dict[str, Any]) -> dict[str, Any]:
    data = statement["declared_public"]
    return {
        "variant_name": "Approximate DP",
        "data_domain": f"All sets of labelled images of {data['image_size']} in these classes: "
        f"{', '.join(data['classes'])}.",
        "unprotected_quantities": f"{data['summary']} {statement['guarantee']['size']}.",
    }


def _loss(statement: dict[str, Any]) -> dict[str, Any]:
    given = statement["guarantee"]
    data = statement["reproducibility"]["configuration"]["data"]
    others = ", ".join(f"{epsilon(at['epsilon'])} at {show(at['delta'])}" for at in given["at_deltas"])
    gaussian = "" if given["mu"] is None else f" Mu = {epsilon(given['mu'])} ({MU})."
    return {
        "privacy_unit": "User-level" if given["unit"] == "person" else "Record-level",
        "privacy_unit_details": f"Adjacency: {given['relation_in_words']}. Adjacent: {given['neighbours']}.",
        "number_of_privacy_units": int(data["records"]),
        "privacy_parameters": {"epsilon": up(float(given["epsilon"])), "delta": float(given["delta"])},
        "privacy_parameters_details": f"Epsilon at other deltas: {others}.{gaussian} "
        f"{statement['plain_words']['summary']}",
    }


def _model(statement: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": statement["guarantee"]["model"],
        "trust_assumptions": statement["coverage"]["attacker"],
        "actors": "The custodian, who holds the data and runs the software; all others see the release alone.",
        "release_type": "One release",
        "release_type_details": statement["other_releases"]["summary"],
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _implementation(statement: dict[str, Any]) -> dict[str, Any]:
    chance = statement["randomness"]
    told = statement["accountant"]
    crossings = "; ".join(map(_crossing, statement["mechanisms"]["events"])) or "none"
    departures = statement["deviations"]
    return {
        "preprocessing_and_hyperparameter_tuning": f"{statement['declared_public']['scaling']} "
        f"Tuning: {statement['tuning']['summary']}",
        "mechanisms": f"{crossings}. {statement['mechanisms']['normaliser']} {chance['summary']} "
        f"Sampling of records: {chance['sampling']}. Software: {told['version']}.",
        "composition": f"{told['name']}, {told['version']}; discretisation: {told['discretisation']}",
        "post_processing": "A generator is trained from the noisy measurements, and images are drawn from it.",
        "justification": Blank("why these choices were made"),
        "utility": Blank("how good the images are for their use"),
        "additional_information": " ".join(
            ["The full statement is in privacy.json and PRIVACY.md.", *departures["deviations"], *departures["caveats"]]
        ),
    }


def _crossing(event: dict[str, Any]) -> str:
    return (
        f"{event['name']}: {event['mechanism']}, sigma {show(event['sigma'], 6)}, sensitivity "
        f"{show(event['sensitivity'], 6)}, {event.get('sampling', 'no subsampling')}, times {show(event['times'])}"
    )
