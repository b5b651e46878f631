"""Labelled images as files: PNG in class folders, or one parquet table. Both read back in their order."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data.images import png
from sfumato.errors import InputError
from sfumato.release.files.gate import Gate
from sfumato.release.files.names import class_folders
from sfumato.types import Images

FORMATS = ("png", "parquet")


def check_format(format: str) -> str:
    """The format, or an error that names the ones there are."""
    if format not in FORMATS:
        raise InputError(f"Expected format={' or format='.join(FORMATS)}, found format={format}.")
    return format


def distinct(images: Images) -> int:
    """How many images there are, each counted once however often it is repeated.

    >>> distinct(Images(np.zeros((3, 1, 2, 2), np.uint8), np.zeros(3, np.int64)))
    1
    """
    return len({pixels.tobytes() for pixels in images.pixels})


def write_images(gate: Gate, images: Images, format: str = "png") -> None:
    """Write images into a folder through its gate; file names number the images, so that order is kept."""
    if check_format(format) == "parquet":
        gate.write("data.parquet", _parquet(images))
        return
    folders = class_folders(images.classes)
    for number, (pixels, label) in enumerate(zip(images.pixels, images.labels, strict=True)):
        gate.write(f"images/{folders[label]}/{number:06d}.png", png(pixels))


def _parquet(images: Images) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = {"image": {"_type": "Image"}, "label": {"names": list(images.classes), "_type": "ClassLabel"}}
    notes = {"huggingface": json.dumps({"info": {"features": features}})}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": png(pixels), "path": f"{number:06d}.png"} for number, pixels in enumerate(images.pixels)]
    columns = [pa.array(rows, kind), pa.array(images.labels, pa.int64())]
    schema = pa.schema([("image", kind), ("label", pa.int64())], metadata=notes)
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), buffer)
    return buffer.getvalue()


def read_images(folder: str | Path) -> Images:
    """The images of a release, or of any folder that `write_images` filled, in the order they were written."""
    folder = Path(folder)
    if (folder / "data.parquet").is_file():
        return _read_parquet(folder / "data.parquet")
    if not (folder / "images").is_dir():
        raise InputError(f"{folder} has neither images/ nor data.parquet; point at a release folder.")
    files = sorted((folder / "images").glob("*/*.png"), key=lambda file: (len(file.stem), file.stem))
    classes = _class_names(folder) or tuple(sorted({file.parent.name for file in files}))
    index = {name: number for number, name in enumerate(class_folders(classes))}
    strange = next((file for file in files if file.parent.name not in index), None)
    if strange is not None:
        raise InputError(f"{strange} is in a folder that is no class of this release; remove it.")
    labels = np.array([index[file.parent.name] for file in files], np.int64)
    return Images(_decode((str(file), file.read_bytes()) for file in files), labels, classes)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    """The true class names, of which the folders' names are only a safe spelling."""
    try:
        return tuple(json.loads((folder / "privacy.json").read_bytes())["declared_public"]["classes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_parquet(path: Path) -> Images:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["image", "label"])
        features = json.loads((table.schema.metadata or {})[b"huggingface"])["info"]["features"]
        classes = tuple(str(name) for name in features["label"]["names"])
        rows: list[dict[str, Any]] = table.column("image").to_pylist()
        labels = table.column("label").to_numpy().astype(np.int64)
        pixels = _decode((f"{path} row {number}", row["bytes"]) for number, row in enumerate(rows))
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a table of images; fetch the release again.") from error
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
        raise InputError(f"{path} has a label that is no class of this release; fetch the release again.")
    return Images(pixels, labels, classes)


def _decode(files: Iterable[tuple[str, bytes]]) -> np.ndarray:
    """All images as one array; the first sets the shape."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Pillow only warns of a decompression bomb
        decoded: list[np.ndarray] = []
        for name, data in files:
            decoded.append(decode_one(name, data))
            if decoded[-1].shape != decoded[0].shape:
                raise InputError(f"{name} differs in size or colour from the first image; fetch the release again.")
    if not decoded:
        raise InputError("This release holds no images; sample some from its generator.")
    return np.stack(decoded)


def decode_one(name: str, data: bytes) -> np.ndarray:
    """One image (channels, height, width) from the bytes of a PNG file."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            array = np.asarray(image)
            mode = image.mode
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError) as error:
        raise InputError(f"{name} cannot be read as a PNG image; fetch the release again.") from error
    if mode not in ("L", "RGB"):
        raise InputError(f"{name} is neither grey nor colour of eight bits; fetch the release again.")
    return array[None] if mode == "L" else array.transpose(2, 0, 1)
