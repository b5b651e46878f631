"""Public images, which methods may look at freely, with the word of where they are from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.data.loading import load
from sfumato.data.private import records
from sfumato.errors import InputError, pythonic
from sfumato.types import Images


@dataclass(frozen=True, eq=False)
class PublicImages:
    """Images that are nobody's secret. `provenance` says where they are from, and goes into the statement."""

    images: Images
    provenance: str

    def __post_init__(self) -> None:
        _check(self.provenance)


@pythonic
def load_public(source: object, provenance: str, **options: Any) -> PublicImages:
    """Read a public set into memory; `options` are those of `load`."""
    _check(provenance)
    with load(source, **options) as box:
        inside = records(box)
        return PublicImages(Images(inside.read(slice(None)), inside.labels, box.spec.classes), provenance.strip())


def _check(provenance: object) -> None:
    if not isinstance(provenance, str) or not provenance.strip():
        raise InputError(
            "Public data need their provenance, for the privacy statement: "
            "say where they are from with --provenance TEXT."
        )
