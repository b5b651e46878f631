"""Every table and figure of the three papers: what is printed, what was measured here, and what makes the rest."""

from __future__ import annotations

from sfumato.bench import budgets, datalens, dpaf, survey
from sfumato.bench.table import Figure, Listing, Table
from sfumato.errors import InputError, did_you_mean

PAPERS = {
    "datalens": "DataLens (Wang et al., CCS 2021)",
    "dpaf": "DPAF (Lin et al.)",
    "survey": "A Unified View (Chen, Kerkouche, Fritz)",
}
Entry = Table | Listing | Figure
ENTRIES: dict[str, Entry] = {
    entry.id: entry for paper in (datalens, dpaf, survey) for entry in (*paper.TABLES, *paper.FIGURES)
}
ENTRIES |= {entry.id: entry for entry in budgets.TABLES}


def find(name: str) -> Entry:
    """The table or figure of this name.

    >>> find("datalens-table-1").shows
    'accuracy of a classifier on synthetic images, epsilon 1 and 10'
    """
    if name in ENTRIES:
        return ENTRIES[name]
    raise InputError(f"There is no table or figure '{name}'; {did_you_mean(name, ENTRIES, 3, 'see `sfumato bench`.')}")
