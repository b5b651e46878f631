"""What the JSON documents of a release may hold at every depth: an allow-list of keys, and the kind of each value.

A schema is written in Python's own terms: `str`, `int`, `float` (whole numbers too), `bool` or None; a tuple of several
that will do; `[item]` for a list; a dictionary for an object with no other keys than those; and `Free` for an object
whose keys are not fixed beforehand, with a reason for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.release.documents.yaml import Blank

Schema = Any
NUMBER = (float, None)
TEXTS = [str]
WORD = r"[A-Za-z][A-Za-z0-9_.]{0,99}"
SHORT = 200  # letters of a free value that is text: a name, a word, a file


@dataclass(frozen=True)
class Free:
    """An object with keys of its own choice, whose values are bounded all the same; `why` says who chooses them."""

    value: Schema
    why: str
    key: str = WORD
    most: int = 200  # entries


@dataclass(frozen=True)
class Short:
    """Text of a few words at most."""

    longest: int = SHORT


def problem(value: Any, schema: Schema, path: str = "") -> str | None:
    """What is not on the list, with its place; None where all of it is."""
    return next(_problems(value, schema, path), None)


def listed(name: str, value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The same value, if all of it is on the list of the document that it goes into; a ValueError otherwise."""
    if (found := problem(value, schema)) is not None:
        raise ValueError(f"The export gate refused {name}: it {found}.")
    return value


def _problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(schema, tuple):
        fitting = [one for one in schema if _is_kind(value, one)]
        if fitting:
            yield from _problems(value, fitting[0], path)
            return
    if not _is_kind(value, schema):
        yield f"has {_named(path)} as {_kind(value)} and not as {_wanted(schema)}"
    elif isinstance(schema, dict):
        for key, part in value.items():
            place = f"{path}.{key}" if path else key
            if key in schema:
                yield from _problems(part, schema[key], place)
            else:
                yield f"has the key '{place}', which is not on the list"
    elif isinstance(schema, Free):
        yield from _free(value, schema, path)
    elif isinstance(schema, list):
        for number, part in enumerate(value):
            yield from _problems(part, schema[0], f"{path}[{number}]")
    elif isinstance(schema, Short) and len(value) > schema.longest:
        yield f"has {_named(path)} of more than {schema.longest} letters"


def _free(value: dict[str, Any], schema: Free, path: str) -> Iterator[str]:
    if len(value) > schema.most:
        yield f"has more than {schema.most} entries in {_named(path)}"
    for key, part in value.items():
        if not re.fullmatch(schema.key, key):
            yield f"has the key '{path}.{key}', which is not a name for {schema.why}"
        yield from _problems(part, schema.value, f"{path}.{key}")


def _is_kind(value: Any, schema: Schema) -> bool:
    """Whether a value is of the outermost kind that a schema asks for."""
    if isinstance(schema, tuple):
        return any(_is_kind(value, one) for one in schema)
    if isinstance(schema, dict | Free):
        return isinstance(value, dict)
    if isinstance(schema, list):
        return isinstance(value, list)
    if schema is None or schema is Blank:
        return value is None if schema is None else isinstance(value, Blank)
    if isinstance(schema, Short) or schema is str:
        return isinstance(value, str)
    if schema is bool or isinstance(value, bool):
        return schema is bool and isinstance(value, bool)
    return isinstance(value, int if schema is int else int | float)


def _named(path: str) -> str:
    return f"'{path}'" if path else "the whole"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "yes or no", type(None): "nothing"}
    return names.get(type(value), "a number")


def _wanted(schema: Schema) -> str:
    if isinstance(schema, tuple):
        return " or ".join(dict.fromkeys(_wanted(one) for one in schema))
    examples: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "yes or no"}
    if isinstance(schema, Short):
        return "text"
    if isinstance(schema, dict | Free | list):
        return "a list" if isinstance(schema, list) else "an object"
    return examples.get(schema, "nothing")


SCALAR = (bool, int, float, Short(), None)
SETTINGS = Free(SCALAR, "a setting, which each method names itself", r"[A-Za-z_][A-Za-z0-9_]{0,59}")
DATA = {
    "name": str,
    "records": int,
    "shape": [int],
    "classes": TEXTS,
    "unit": str,
    "count_public": bool,
    "public": bool,
}
LABELS = {"kind": str, "weights": ([float], None)}
BUDGET = {"epsilon": float, "delta": float, "relation": str, "unit": str}
CROSSING = {
    "bound_enforced": str,
    "name": str,
    "mechanism": str,
    "sigma": float,
    "sensitivity": float,
    "multiplier": float,
    "bound": float,
    "sampling": str,
    "times": int,
}
EVENT = {
    "mechanism": str,
    "sigma": float,
    "sensitivity": float,
    "bound": float,
    "relation": str,
    "rate": float,
    "times": int,
    "shift": [int],
    "shifts": [[int]],
    "cap": int,
    "records": int,
    "mixture": [[float]],
    "held": bool,
}
# One event, or a selection that holds the events of one of its runs.
ACCOUNTED = EVENT | {"events": [EVENT], "mean": float, "shape": (float, str)}
OPINION = {"accountant": str, "epsilon": NUMBER, "note": str}
PAPER = Free((bool, int, float, str, None), "a figure of the paper, from public numbers")
PUBLIC_DATA = {"name": str, "provenance": str, "records": int, "shape": [int], "classes": TEXTS}
RUN = {
    "run": str,
    "method": str,
    "epsilon": float,
    "delta": float,
    "relation": str,
    "unit": str,
    "mu": float,
    "state": str,
    "status": str,
}
TENSORS = Free({"shape": [int], "why": str}, "a tensor, named by its crossing", r"[^\x00-\x1f]{1,200}", 10_000)
FEDERATED = {
    "sites": TEXTS,
    "records": [int],
    "trust": str,
    "dropouts": int,
    "colluders": int,
    "persons_at_most": int,
    "log10_of_shares": NUMBER,
}

STATEMENT: dict[str, Schema] = {
    "format": str,
    "guarantee": {
        "summary": str,
        "epsilon": float,
        "delta": float,
        "mu": NUMBER,
        "advantage": NUMBER,
        "model": str,
        "relation": str,
        "relation_in_words": str,
        "neighbours": str,
        "unit": str,
        "sensitivity": str,
        "size": str,
        "at_deltas": [{"delta": float, "epsilon": float}],
        "curve": [[float]],
        "federated": FEDERATED,
    },
    "coverage": {
        "summary": str,
        "released": TEXTS,
        "not_covered": TEXTS,
        "attacker": str,
        "intermediate_releases_covered": bool,
        "intermediate_in_words": str,
    },
    "mechanisms": {
        "summary": str,
        "events": [CROSSING],
        "accounted": [ACCOUNTED],
        "labels": str,
        "normaliser": str,
    },
    "accountant": {
        "summary": str,
        "name": str,
        "version": str,
        "discretisation": str,
        "data_independent": bool,
        "second_opinion": (str, OPINION),
        "paper": (str, PAPER),
    },
    "declared_public": {
        "summary": str,
        "data_name": str,
        "data_public": bool,
        "classes": TEXTS,
        "image_size": str,
        "shape": [int],
        "size": str,
        "scaling": str,
        "label_prior": str,
        "label_weights": ([float], None),
        "settings": SETTINGS,
        "public_data": (str, PUBLIC_DATA),
    },
    "tuning": {"summary": str},
    "other_releases": {
        "summary": str,
        "runs": [RUN],
        "epsilon_total": NUMBER,
        "delta": NUMBER,
        "made": (str, None),
        "named": bool,
    },
    "randomness": {
        "summary": str,
        "source": str,
        "sampler": str,
        "sampling": str,
        "user_seed": str,
        "process": Short(),  # where the method had one of its own
    },
    "deviations": {"summary": str, "deviations": TEXTS, "caveats": TEXTS, "warnings": TEXTS},
    "audit": {
        "summary": str,
        "levels": [int],
        "verdict": str,
        "records": str,
        "audited_on": str,
        "checks": [{"check": Short(), "seen": Short()}],
    },
    "reproducibility": {
        "summary": str,
        "software": str,
        "method": str,
        "configuration_hash": str,
        "labels": (LABELS, None),
        "data_hash": str,
        "noise_seeds": str,
        "command": str,
        "configuration": {"method": str, "settings": SETTINGS, "data": DATA, "budget": BUDGET},
    },
    "plain_words": {
        "summary": str,
        "attacker_success": float,
        "attacker_advantage": float,
        "basis": str,
        "sentences": TEXTS,
    },
    "publication": {"license": Short(61), "title": Short(), "contact": Short()},
    "measurement": ({"file": str, "tensors": TENSORS}, None),
}
# How to build a generator again; the keys of all kinds together.
NETWORK = {
    "kind": str,
    "shape": [int],
    "classes": TEXTS,
    "latent": int,
    "label_weights": ([float], None),
    "latent_distribution": str,
    "conditional": bool,
    "width": int,
    "hidden": int,
    "norm": (str, bool),
    "layers": int,
    "smooth": float,
    "each": int,
    "repeats": bool,
    "frequencies": int,
    "temperature": float,
    "components": int,
    "models": int,
    "flow_width": int,
    "codes": int,
    "multipliers": [int],
    "blocks": int,
    "attention": (int, bool, [int]),
    "patch": int,
    "sampler": str,
    "sampler_steps": int,
    "guidance": float,
    "churn": float,
    "lowest": float,
    "highest": float,
    "sigma_data": float,
    "bfloat16": bool,
    "patches": int,
    "mirrored": bool,
    "images": str,
    "channels": int,
    "code_width": int,
}
GENERATOR = {"format": str, "generator": NETWORK | {"generators": [NETWORK], "model": NETWORK}}
CLASSIFIER = {
    "format": str,
    "classifier": {
        "network": str,
        "shape": [int],
        "classes": TEXTS,
        "groups": int,
        "centre": float,
        "spread": float,
        "features": str,
        "fingerprint": str,
    },
}
STRIP = {"format": str, "total": int, "moments": [{"step": int, "epsilon": NUMBER}]}
FILES = Free({"sha256": str, "size": int}, "a file of the release", r"[^\x00-\x1f]{1,300}", 20_000_000)
HASH_LIST = {"format": str, "files": FILES, "signed_by": (str, None)}
SIGNED = {"format": str, "public_key": str, "signature": str, "signer": (str, None)}
ACCURACY = {
    "format": str,
    "accuracy": float,
    "low": float,
    "high": float,
    "interval": str,
    "counts": {"wrong": float, "right": float},
    "sigma": float,
    "classifier": str,
    "test_units": int,
    "unit": str,
    "guarantee": str,
    "release": {"method": str, "statement": str},
}
# The head of the dataset card, and the draft record for the registry: neither is JSON, and both have fixed keys too.
CARD = {
    "license": Short(61),
    "pretty_name": str,
    "task_categories": TEXTS,
    "size_categories": TEXTS,
    "tags": TEXTS,
    "configs": [{"config_name": str, "data_files": [{"split": str, "path": str}]}],
}
RECORD = {
    "url_slug": str,
    "deployment": {
        "basic": {
            "name": str,
            "data_curators": [{"data_curator_name": Blank, "data_curator_type": Blank}],
            "description": str,
            "intended_use": Blank,
            "data_product_type": str,
            "data_product_region": Blank,
            "data_product_sector": Blank,
            "publication_date": Blank,
        },
        "dp_variant": {"variant_name": str, "data_domain": str, "unprotected_quantities": str},
        "privacy_loss": {
            "privacy_unit": str,
            "privacy_unit_details": str,
            "number_of_privacy_units": int,
            "privacy_parameters": {"epsilon": float, "delta": float},
            "privacy_parameters_details": str,
        },
        "deployment_model": {
            "model_name": str,
            "model_name_details": str,
            "trust_assumptions": str,
            "actors": str,
            "release_type": str,
            "release_type_details": str,
            "data_source_type": str,
            "access_type": str,
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": str,
            "mechanisms": str,
            "composition": str,
            "post_processing": str,
            "justification": Blank,
            "utility": Blank,
            "additional_information": str,
        },
        "administrative": {"status": str, "registry_authors": [Blank], "tier": int},
    },
}
