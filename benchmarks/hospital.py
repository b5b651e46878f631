"""The folder of the tutorial: chest X-rays of PneumoniaMNIST, with patients that are invented.

    python -m benchmarks.hospital pneumoniamnist_28.npz xrays

writes xrays/train and xrays/test, each with its images and a metadata.csv of file_name, label and patient. The set says
nothing of patients; here each has one to a few images, drawn from a seed, and 26 % of the images are normal.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("normal", "pneumonia")
EACH = 1.6  # images of a patient on average


def write(images: np.ndarray, labels: np.ndarray, folder: Path, random: np.random.Generator) -> None:
    """One split: images and their metadata."""
    folder.mkdir(parents=True)
    patients = random.integers(0, round(len(images) / EACH), len(images))
    with (folder / "metadata.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("file_name", "label", "patient"))
        for at, (pixels, label, patient) in enumerate(zip(images, labels, patients, strict=True)):
            Image.fromarray(pixels).save(folder / f"{at:05d}.png")
            rows.writerow((f"{at:05d}.png", CLASSES[label], f"P{patient:05d}"))


def main(source: str, target: str) -> None:
    """All splits that the tutorial needs."""
    with np.load(source) as file:
        for split in ("train", "test"):
            images, labels = file[f"{split}_images"], file[f"{split}_labels"].ravel()
            write(images, labels, Path(target) / split, np.random.default_rng(len(images)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
