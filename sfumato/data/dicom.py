"""DICOM files: pixels at 8 bits and, where asked for, the patient. No other element of a file is kept or shown.

    stored values --modality LUT (rescale)--> values with a meaning --window (VOI)--> 0 to 255

A file with a window is shown through its first one. Without a window, unsigned values of a file that rescales nothing
go by the bits they are stored in. Anything else has no range of its own, and is refused: to guess one from the values
would make images that cannot be compared.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data.arrays import check_text
from sfumato.data.source import show
from sfumato.errors import InputError, extra

PATIENT = "PatientID"  # of the option that names the person column
DICOM = frozenset((".dcm", ".dicom"))
MAGIC = b"DICM"  # behind a preamble of 128 bytes
PIXELS = (
    "Rows",
    "Columns",
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "PlanarConfiguration",
    "NumberOfFrames",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "RescaleSlope",
    "RescaleIntercept",
    "ModalityLUTSequence",
    "WindowCenter",
    "WindowWidth",
    "VOILUTFunction",
    "RedPaletteColorLookupTableDescriptor",
    "PixelData",
)
MOST_PIXELS = 80_000_000


def is_dicom(entry: os.DirEntry[str]) -> bool:
    """Whether a file is a DICOM file: by its ending, or where it has none by its first bytes."""
    ending = os.path.splitext(entry.name)[1].lower()
    if ending in DICOM:
        return True
    if ending or not entry.is_file():
        return False
    with open(entry.path, "rb") as file:
        return file.read(132)[128:] == MAGIC


def patient_of(path: Path) -> str:
    """The patient of a file, as it is given there; nobody sees it but the ledger, by a keyed hash."""
    text = str(_read(path, (PATIENT,)).get(PATIENT, "") or "").strip()
    if not text:
        raise InputError(f"{show(path)} names no patient; fill in its {PATIENT}, or use a metadata file.")
    return check_text(text, show(path), "patient")


def decode_dicom(path: Path, where: str) -> np.ndarray:
    """Pixels of a DICOM file, uint8, height x width (grey) or height x width x 3."""
    file = _read(path, PIXELS)
    _check(file, where)
    try:
        stored = file.pixel_array
    except Exception as error:  # compressions that need another package, broken files
        reason = show(error)[:120]
        raise InputError(f"{show(where)} cannot be unpacked ({reason}); save it uncompressed, or as PNG.") from error
    if file.SamplesPerPixel == 3:
        return _colour(file, stored, where)
    grey = _windowed(file, stored, where)
    return 255 - grey if file.PhotometricInterpretation == "MONOCHROME1" else grey


def _read(path: Path, elements: tuple[str, ...]) -> Any:
    pydicom = extra("pydicom", "dicom")
    try:
        return pydicom.dcmread(path, specific_tags=list(elements))
    except Exception as error:
        reason = show(error)[:120]
        raise InputError(f"{show(path)} cannot be read as DICOM ({reason}); replace it or take it out.") from error


def _check(file: Any, where: str) -> None:
    """Refuse by what the header says, before any pixel is unpacked."""
    if "PixelData" not in file:
        raise InputError(f"{show(where)} has no pixels; take it out.")
    if int(file.get("NumberOfFrames", 1) or 1) > 1:
        raise InputError(f"{show(where)} has several frames; save the one that counts as a file of its own.")
    if int(file.Rows) * int(file.Columns) > MOST_PIXELS:
        raise InputError(f"{show(where)} has more than {MOST_PIXELS // 1_000_000} million pixels; make it smaller.")
    kind = str(file.get("PhotometricInterpretation", ""))
    known = ("MONOCHROME1", "MONOCHROME2") if file.SamplesPerPixel == 1 else ("RGB", "YBR_FULL", "YBR_FULL_422")
    if kind not in known:
        raise InputError(
            f"{show(where)} has colours of the kind {show(kind)[:40]!r}, which are not read; save it as PNG."
        )


def _colour(file: Any, stored: np.ndarray, where: str) -> np.ndarray:
    if stored.dtype != np.uint8:
        raise InputError(f"{show(where)} has colours of more than 8 bits; save it as PNG.")
    if file.PhotometricInterpretation == "RGB":
        return stored
    pixels = extra("pydicom.pixels", "dicom")
    return np.asarray(pixels.convert_color_space(stored, file.PhotometricInterpretation, "RGB"))


def _windowed(file: Any, stored: np.ndarray, where: str) -> np.ndarray:
    """Grey values through the window of the file, or by their bits."""
    if "WindowCenter" in file and "WindowWidth" in file:
        pixels = extra("pydicom.pixels", "dicom")
        values: np.ndarray = np.asarray(pixels.apply_modality_lut(stored, file), np.float64)
        shares: np.ndarray = _through(values, _first(file.WindowCenter), _first(file.WindowWidth), file, where)
    elif _plain(file):
        shares = stored.astype(np.float64) / (2 ** int(file.BitsStored) - 1)
    else:
        raise InputError(
            f"{show(where)} has no window, and its values no range of their own; write WindowCenter and WindowWidth "
            "into the file, or save it as PNG."
        )
    return np.asarray(np.round(np.clip(shares, 0, 1) * 255), np.uint8)


def _plain(file: Any) -> bool:
    """Whether stored values are unsigned and mean themselves."""
    rescaled = (float(file.get("RescaleSlope", 1) or 1), float(file.get("RescaleIntercept", 0) or 0)) != (1, 0)
    return int(file.PixelRepresentation) == 0 and not rescaled and "ModalityLUTSequence" not in file


def _first(value: Any) -> float:
    """The first of several windows."""
    return float(value[0] if hasattr(value, "__len__") and not isinstance(value, str) else value)


def _through(values: np.ndarray, centre: float, width: float, file: Any, where: str) -> np.ndarray:
    """The standard's three functions of a window (PS3.3, C.11.2.1), as shares of full brightness."""
    kind = str(file.get("VOILUTFunction", "") or "LINEAR")
    if not np.isfinite([centre, width]).all() or width <= 0 or (kind == "LINEAR" and width < 1):
        raise InputError(f"{show(where)} has a window of width {width:g}; correct WindowWidth.")
    if kind == "SIGMOID":
        return np.asarray(1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700))))
    if kind == "LINEAR_EXACT":
        return np.asarray((values - centre) / width + 0.5)
    return np.asarray((values - (centre - 0.5)) / max(width - 1, 1e-9) + 0.5)
