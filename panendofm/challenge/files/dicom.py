"""Tags of a DICOM file that say who, when or where. Needs the extra `dicom` (pydicom)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from panendofm.runtime.errors import UserError

IDENTIFYING = (
    *("PatientName", "PatientID", "PatientBirthDate", "PatientBirthTime", "PatientAddress", "OtherPatientIDs"),
    *("PatientTelephoneNumbers", "PatientMotherBirthName", "InstitutionName", "InstitutionAddress"),
    *("InstitutionalDepartmentName", "ReferringPhysicianName", "PerformingPhysicianName", "OperatorsName"),
    *("PhysiciansOfRecord", "StationName", "AccessionNumber", "StudyID", "StudyDate", "SeriesDate", "AcquisitionDate"),
    *("ContentDate", "StudyTime", "SeriesTime", "AcquisitionTime", "ContentTime", "DeviceSerialNumber"),
)


def dicom_findings(path: Path) -> list[tuple[Literal["error", "remark"], str]]:
    try:
        import pydicom
        from pydicom.errors import InvalidDicomError
    except ImportError:
        raise UserError(
            f"{path}: DICOM files need the package pydicom; install it with 'pip install panendofm[dicom]'."
        ) from None
    try:
        dataset = pydicom.dcmread(path, stop_before_pixels=True)
    except (InvalidDicomError, OSError, ValueError, EOFError, AttributeError, KeyError) as error:
        return [("error", f"it is no readable DICOM file ({error})")]
    found: list[tuple[Literal["error", "remark"], str]] = [
        ("error", f"the tag {name} is filled; empty it") for name in IDENTIFYING if str(dataset.get(name, "") or "")
    ]
    if any(element.tag.is_private for element in dataset):
        found.append(("remark", "there are private tags; nobody knows what they hold"))
    if str(dataset.get("BurnedInAnnotation", "")).upper() == "YES":
        found.append(("error", "it says itself that text is burned into the image; paint it over"))
    return found
