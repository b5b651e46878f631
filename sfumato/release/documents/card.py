"""README.md: the dataset card."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sfumato.release.documents.render import render_text
from sfumato.release.files.schema import CARD, listed
from sfumato.release.statement.numbers import show
from sfumato.types import Images

SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))


def size_category(count: int) -> str:
    """The hub's name for a size.

    >>> size_category(10_000)
    '10K<n<100K'
    """
    return next((name for limit, name in SIZES if count < limit), "10M<n<100M")


def make_card(statement: dict[str, Any], images: Images, format: str = "png") -> str:
    """The dataset card, with the front matter that dataset hubs read."""
    from markupsafe import Markup

    counts = np.bincount(images.labels, minlength=len(images.classes))
    return render_text(
        "readme.md.j2",
        front=Markup(_front_matter(statement, len(images), format)),
        title=_title(statement),
        s=statement,
        said={"license": None, "contact": None} | statement.get("publication", {}),
        count=len(images),
        counts=list(zip(images.classes, counts.tolist(), strict=True)),
        layout=Markup(_layout(format)),
        loader=Markup(_loader(format)),
        show=show,
    )


def _title(statement: dict[str, Any]) -> str:
    if title := statement.get("publication", {}).get("title"):
        return str(title)
    return f"{statement['declared_public']['data_name']}, synthetic ({statement['reproducibility']['method']})"


def _front_matter(statement: dict[str, Any], count: int, format: str) -> str:
    """YAML whose values are JSON, which YAML reads: a hostile name cannot break out of its quotes."""
    files = "images/**" if format == "png" else "data.parquet"
    licence = statement.get("publication", {}).get("license")
    front = ({"license": licence} if licence else {}) | {
        "pretty_name": " ".join(_title(statement).split()),
        "task_categories": ["image-classification"],
        "size_categories": [size_category(count)],
        "tags": ["synthetic", "differential-privacy", "sfumato"],
        # Named here, so that a class called "test" is not taken for a split.
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": files}]}],
    }
    return "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in listed("README.md", front, CARD).items()
    )


def _layout(format: str) -> str:
    if format == "png":
        return "images/<class>/<number>.png      the images, one folder a class"
    return "data.parquet                     the images: columns image (PNG bytes) and label"


def _loader(format: str) -> str:
    if format == "png":
        return 'images = load_dataset("imagefolder", data_files="images/**", split="train", drop_labels=False)'
    return 'images = load_dataset("parquet", data_files="data.parquet", split="train")'
