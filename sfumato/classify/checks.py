"""The checks of a classifier's folder: each returns what is well, or raises an InputError that says what is not."""

from __future__ import annotations

import json

from sfumato.classify.release import ALWAYS, CONFIG, RULES, WEIGHTS, read_config
from sfumato.classify.release import documents as written
from sfumato.errors import InputError
from sfumato.release.files import gate
from sfumato.release.files.checks import Folder, by_version, certificates, demand
from sfumato.release.files.reading import read_tensors


def contents(release: Folder) -> str:
    missing = [f"{name} is missing." for name in ALWAYS if not (release.folder / name).is_file()]
    demand([*gate.check(release.folder, RULES), *missing])
    return "Nothing is missing, and nothing is there that a classifier's folder may not contain."


def documents(release: Folder) -> str:
    expected = written(release.statement)
    wrong = [
        f"{name} is not what the statement gives."
        for name, text in expected.items()
        if release.data(name) != text.encode()
    ]
    demand(by_version(release.statement, wrong))
    return f"{', '.join(expected)} are what the statement gives."


def classifier(release: Folder) -> str:
    data = release.data(CONFIG)
    statement = release.statement
    architecture = read_config(release.folder)
    public = statement["declared_public"]
    if gate.json_text(json.loads(data)).encode() != data:
        raise InputError(f"{CONFIG} is not in the form in which it was written.")
    if list(architecture.classes) != list(public["classes"]) or list(architecture.shape) != list(public["shape"]):
        raise InputError("The classifier's classes or shape are not those of the statement.")
    if architecture.network != public["settings"]["network"]:
        raise InputError("The classifier's network is not that of the statement.")
    demand(certificates(statement, read_tensors(release.folder / WEIGHTS)))
    return f"Its weights follow from the events; {architecture.network}, {len(architecture.classes)} classes."
