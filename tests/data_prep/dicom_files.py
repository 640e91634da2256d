"""DICOM files for tests, with the name of a patient that must not get anywhere."""

from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian


def write_dicom(
    path: Path,
    pixels: np.ndarray,
    syntax: UID = ExplicitVRLittleEndian,
    *,
    data: bytes | None = None,
    **tags: Any,
) -> Path:
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.SOPClassUID = dataset.file_meta.MediaStorageSOPClassUID = UID("1.2.840.10008.5.1.4.1.1.7")
    dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = UID("1.2.3")
    dataset.PatientName, dataset.PatientID = "Secret^Name", "SECRET-ID"
    dataset.Rows, dataset.Columns = pixels.shape[:2]
    dataset.SamplesPerPixel = 3 if pixels.ndim == 3 else 1
    dataset.PhotometricInterpretation = "RGB" if pixels.ndim == 3 else "MONOCHROME2"
    if pixels.ndim == 3:
        dataset.PlanarConfiguration = 0
    dataset.BitsAllocated = dataset.BitsStored = 8 * pixels.itemsize
    dataset.PixelRepresentation = int(pixels.dtype.kind == "i")
    for name, value in tags.items():
        setattr(dataset, name, value)
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelData = pixels.tobytes() if data is None else data
    dataset["PixelData"].VR = "OB" if dataset.BitsAllocated == 8 or data is not None else "OW"
    dataset.save_as(path, enforce_file_format=True)
    return path
