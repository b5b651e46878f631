from __future__ import annotations

from typing import Any

import pytest

from sfumato.release.documents.registry import make_record
from sfumato.release.documents.yaml import Blank, to_yaml
from tests.release.files.test_fakes import fake_plan, fake_statement

yaml = pytest.importorskip("yaml")

# The fields of the registry's schema, of which every leaf is text, a number or a list.
SHAPE = {
    "basic": {
        "name",
        "data_curators",
        "description",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "data_product_sector",
        "publication_date",
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_details",
        "number_of_privacy_units",
        "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment_model": {
        "model_name",
        "model_name_details",
        "trust_assumptions",
        "actors",
        "release_type",
        "release_type_details",
        "data_source_type",
        "access_type",
    },
    "implementation": {
        "preprocessing_and_hyperparameter_tuning",
        "mechanisms",
        "composition",
        "post_processing",
        "justification",
        "utility",
        "additional_information",
    },
    "administrative": {"status", "registry_authors", "tier"},
}


def record(**changes: Any) -> dict[str, Any]:
    return yaml.safe_load(make_record(fake_statement(fake_plan(**changes)), 12))


def test_the_shape_is_the_registrys() -> None:
    found = record()
    assert set(found) == {"url_slug", "deployment"} and found["url_slug"] == "chest-scans-synthetic-dp-merf"
    assert {name: set(part) for name, part in found["deployment"].items()} == SHAPE
    chosen = found["deployment"]
    assert chosen["basic"]["data_product_type"] == "Synthetic data" and chosen["administrative"]["status"] == "Draft"
    assert chosen["dp_variant"]["variant_name"] == "Approximate DP"
    assert (chosen["deployment_model"]["model_name"], chosen["deployment_model"]["access_type"]) == (
        "Central",
        "Non-interactive",
    )


def test_numbers_are_numbers() -> None:
    loss = record()["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5} and loss["number_of_privacy_units"] == 60000
    assert isinstance(loss["privacy_parameters"]["delta"], float)


def test_the_unit_and_the_relation() -> None:
    loss = record(data={"unit": "person"}, guarantee={"unit": "person", "relation": "replace-one"})
    loss = loss["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "User-level" and "replace-one" in loss["privacy_unit_details"]


def test_what_only_people_know_is_left_blank() -> None:
    text, found = make_record(fake_statement(), 12), record()["deployment"]
    assert found["basic"]["data_curators"] == [{"data_curator_name": None, "data_curator_type": None}]
    assert found["basic"]["intended_use"] is found["basic"]["publication_date"] is None
    assert all("  # " in line for line in text.splitlines() if "null" in line and not line.startswith("#"))


def test_hostile_names_stay_in_their_quotes() -> None:
    name = 'x"\n  status: Approved  # \u2028\x85\x7f\ufeff😀 : - {a} & *b !c'
    found = record(data={"name": name, "classes": [name, "- b"]})
    assert found["deployment"]["basic"]["name"] == f"{name}, synthetic (dp-merf)"
    assert found["deployment"]["administrative"]["status"] == "Draft"
    assert found["deployment"]["dp_variant"]["data_domain"].endswith(f"{name}, - b.")


def test_a_private_count_is_never_told() -> None:
    text = make_record(fake_statement(fake_plan(data={"count_public": False, "records": 5000})), 12)
    assert "declared size 5,000 records" in text and "count is public" not in text


@pytest.mark.parametrize("value", [1e-5, 1e-300, 5e22, 0.1, 3.0, 7, True, None, "1e-5", "no", "", "#", "null"])
def test_values_read_back(value: Any) -> None:
    found = yaml.safe_load(to_yaml({"a": {"b": [{"c": value}, value]}, "blank": Blank("say")}))
    assert found == {"a": {"b": [{"c": value}, value]}, "blank": None}
    assert type(found["a"]["b"][1]) is type(value)
