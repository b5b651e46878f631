"""Places365 in three classes: indoor, outdoor natural, outdoor man-made, about 40,000 images each.

From a user's own copy: category folders (below train/ and val/, or as the archive has them) and the published
table of categories (a .csv file beside them, one row a category with a 1 under each heading it belongs to).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sfumato.data.faces import decoded, keyed
from sfumato.data.folder import find_images
from sfumato.data.source import Options, Source, code_labels, pick_split, show
from sfumato.errors import InputError

HEADINGS = {"indoor": "indoor", "outdoornatural": "outdoor-natural", "outdoormanmade": "outdoor-man-made"}
EACH = 40_000  # of each class for training, on average: 120,000 in all
PUBLISHED = {"train": 1_803_460 / 365, "test": 100}  # images of a category of the published set, on average
FOLDERS = {"train": ("train", "data_256", "data_large"), "test": ("val", "val_256", "val_large")}


def open_places(root: Path, options: Options) -> Source:
    """Places365 in three classes as a source; each image is in or out by a fixed hash of its own name."""
    options.refuse_columns(show(root))
    if not root.is_dir():
        raise InputError(f"{show(root)} is not a folder; give the folder of Places365.")
    base = _base(root, options.split)
    classes = read_hierarchy(_table(root))
    chosen = _chosen(find_images(base, root), classes, shares(classes, options.split))
    names, numbers = code_labels([found for _, found in chosen], list(HEADINGS.values()))
    paths = [base / name for name, _ in chosen]
    return Source(str(root), names, numbers, lambda: decoded(paths))


def read_hierarchy(path: Path) -> dict[str, str]:
    """Category to class, for the categories that belong to exactly one of the three."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{show(path)} cannot be read as CSV ({show(error)}); replace it by a good copy.") from error
    head = next((row for row in rows if set(HEADINGS) <= {_squeezed(cell) for cell in row}), None)
    if head is None:
        raise InputError(
            f"{show(path)} has no row with the headings indoor, outdoor natural and outdoor man-made; "
            "give the table of scene categories of Places365."
        )
    columns = {at: HEADINGS[name] for at, cell in enumerate(head) if (name := _squeezed(cell)) in HEADINGS}
    classes = {}
    for row in rows[rows.index(head) + 1 :]:
        marked = [name for at, name in columns.items() if at < len(row) and row[at].strip() in ("1", "1.0")]
        if len(marked) == 1:
            classes[category(row[0].strip(" '\"").split("/"))] = marked[0]
    return classes


def category(parts: Sequence[str]) -> str:
    """One spelling for /a/airfield and airfield, and for /c/church/indoor and church-indoor.

    >>> category(["", "c", "church", "indoor"])
    'church-indoor'
    """
    kept = [part for part in parts if part]
    return "-".join(kept[1:] if len(kept) > 1 and len(kept[0]) == 1 else kept)


def shares(classes: dict[str, str], split: str) -> dict[str, float]:
    """The share of each class that is kept: public, from the table and the sizes of the published set alone."""
    many = Counter(classes.values())
    return {name: min(1.0, EACH / (many[name] * PUBLISHED[split])) for name in many}


def _chosen(files: list[str], classes: dict[str, str], shares: dict[str, float]) -> list[tuple[str, str]]:
    """The images whose hash lies below the threshold of their class, with that class.

    A threshold and not the lowest hashes of a class: a rank would let another image in where one is taken out, so
    that one record could change the set by two.
    """
    classified = ((file, classes.get(category(file.split("/")[:-1]))) for file in files)
    return [(file, name) for file, name in classified if name is not None and keyed(file) < shares[name] * 2**64]


def _base(root: Path, split: str) -> Path:
    """The folder of a split; category folders at the top are all "train"."""
    there = {name: root / folder for name, folders in FOLDERS.items() for folder in folders if (root / folder).is_dir()}
    pick_split(split, sorted(there) or ["train"], show(root))
    return there.get(split, root)


def _table(root: Path) -> Path:
    tables = sorted(path for path in root.iterdir() if path.suffix.lower() == ".csv" and path.is_file())
    if len(tables) != 1:
        raise InputError(
            f"{show(root)} has {len(tables)} .csv files; put the table of scene categories of Places365 "
            "there, and no other."
        )
    return tables[0]


def _squeezed(cell: str) -> str:
    return "".join(letter for letter in cell.lower() if letter.isalpha())
