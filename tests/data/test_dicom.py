"""DICOM folders: pixels through the window of the file, and the patient; nothing else of a file."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sfumato import InputError, Unit, load
from sfumato.data.private import records
from tests.made_up import expects


@pytest.fixture
def pydicom():
    return pytest.importorskip("pydicom")


def write(path, values, patient="p1", **elements):
    """A DICOM file of the plainest kind."""
    import pydicom
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    values = np.asarray(values)
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.1"
    file.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    bits = values.dtype.itemsize * 8
    plain = {
        "PatientID": patient,
        "PatientName": "Secret^Name",
        "Rows": values.shape[0],
        "Columns": values.shape[1],
        "SamplesPerPixel": values.shape[2] if values.ndim == 3 else 1,
        "PhotometricInterpretation": "RGB" if values.ndim == 3 else "MONOCHROME2",
        "BitsAllocated": bits,
        "BitsStored": bits,
        "HighBit": bits - 1,
        "PixelRepresentation": int(values.dtype.kind == "i"),
    }
    if values.ndim == 3:
        plain["PlanarConfiguration"] = 0
    for name, value in (plain | elements).items():
        if value is not None:
            setattr(file, name, value)
    file.PixelData = values.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    pydicom.dcmwrite(path, file, enforce_file_format=True)


def only(folder) -> np.ndarray:
    """The pixels of the one image of a folder."""
    with load(folder) as box:
        return np.asarray(records(box).read(np.arange(1)))[0, 0]


RAMP = np.arange(16, dtype=np.uint16).reshape(4, 4) * 273  # 0 to 4095


def test_without_a_window_values_go_by_their_bits(folder, pydicom):
    write(folder / "a.dcm", RAMP, BitsStored=12, HighBit=11)
    assert only(folder).ravel().tolist() == [round(value / 4095 * 255) for value in RAMP.ravel().tolist()]


def test_a_window_is_looked_through_behind_the_rescaling(folder, pydicom):
    values = np.array([[0, 1000, 1040, 1080, 3000]], np.uint16).repeat(2, 0)
    window = {"WindowCenter": 40.5, "WindowWidth": 81, "RescaleSlope": 1, "RescaleIntercept": -1000}
    write(folder / "a.dcm", values, **window)
    assert only(folder)[0].tolist() == [0, 0, 128, 255, 255]


@pytest.mark.parametrize(
    ("kind", "expected"), [("LINEAR_EXACT", [0, 64, 128, 191, 255]), ("SIGMOID", [30, 69, 128, 186, 225])]
)
def test_the_other_functions_of_a_window(kind, expected, folder, pydicom):
    values = np.array([[0, 25, 50, 75, 100]], np.uint16).repeat(2, 0)
    write(folder / "a.dcm", values, WindowCenter=50, WindowWidth=100, VOILUTFunction=kind)
    assert only(folder)[0].tolist() == pytest.approx(expected, abs=1)


def test_the_first_of_several_windows_counts_and_monochrome1_is_turned(folder, pydicom):
    write(folder / "a.dcm", np.eye(4, dtype=np.uint8) * 255, PhotometricInterpretation="MONOCHROME1")
    assert only(folder).tolist() == (255 - np.eye(4, dtype=int) * 255).tolist()
    write(folder / "a.dcm", np.eye(4, dtype=np.uint8) * 200, WindowCenter=[100.5, 10], WindowWidth=[201, 20])
    assert only(folder)[0, :2].tolist() == [255, 0]


def test_colour_is_colour(folder, pydicom):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), np.uint8)
    write(folder / "a.dcm", pixels)
    with load(folder) as box:
        assert box.spec.shape == (3, 4, 4)


def test_classes_are_folders_and_patients_are_persons(folder, pydicom):
    for number in range(6):
        write(folder / ("ill", "well")[number % 2] / f"{number}.dcm", RAMP + number, f"patient {number // 3}")
    with load(folder, person="PatientID") as box:
        assert box.spec.unit is Unit.PERSON and box.spec.records == 2 and box.spec.classes == ("ill", "well")
    with load(folder) as box:
        assert box.spec.unit is Unit.RECORD and box.spec.records == 6


def test_a_file_without_an_ending_is_known_by_its_first_bytes(folder, pydicom):
    write(folder / "IM0001", RAMP)
    (folder / "README").write_text("not an image")
    with load(folder) as box:
        assert box.spec.records == 1


def test_a_metadata_file_may_say_the_class_and_the_person(folder, pydicom):
    write(folder / "a.dcm", RAMP)
    write(folder / "b.dcm", RAMP + 1)
    (folder / "metadata.csv").write_text("file_name,label,who\na.dcm,ill,x\nb.dcm,well,x\n")
    with load(folder, person="who") as box:
        assert box.spec.classes == ("ill", "well") and box.spec.records == 1


@pytest.mark.parametrize(
    ("elements", "says"),
    [
        ({"RescaleSlope": 2, "RescaleIntercept": 0}, "has no window, and its values no range"),
        ({"PixelRepresentation": 1}, "has no window, and its values no range"),
        ({"WindowCenter": 5, "WindowWidth": 0}, "window of width 0"),
        ({"NumberOfFrames": 3}, "several frames"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "colours of the kind 'PALETTE COLOR'"),
    ],
)
def test_what_has_no_sensible_picture_is_one_sentence(elements, says, folder, pydicom):
    write(folder / "a.dcm", RAMP, **elements)
    expects(folder, says)


def test_a_file_that_is_none_and_a_patient_without_a_name(folder, pydicom):
    write(folder / "a.dcm", RAMP, patient="")
    expects(folder, "names no patient", person="PatientID")
    expects(folder, "has no column who to use as person", person="who")
    (folder / "b.dcm").write_bytes(b"nothing")
    expects(folder, "cannot be read as DICOM")


def test_names_in_a_file_go_nowhere(folder, pydicom, tmp_path):
    """Only pixels and, where asked for, the identifier are read: no error and no box speaks of anything else."""
    write(folder / "a.dcm", RAMP, "patient 7", RescaleSlope=2, RescaleIntercept=0)
    with pytest.raises(InputError) as error:
        load(folder, person="PatientID")
    assert "Secret" not in str(error.value) and "patient 7" not in str(error.value)


def test_without_the_extra_there_is_a_sentence(folder, monkeypatch):
    (folder / "a.dcm").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    expects(folder, "needs the package pydicom; install it with pip install 'sfumato\\[dicom\\]'")
