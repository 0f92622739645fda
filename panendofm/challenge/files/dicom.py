"""Tags of a DICOM file that say who, when or where. Needs the extra `dicom` (pydicom)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from panendofm.imaging.dicom import read_dicom_head
from panendofm.imaging.images import UnreadableImageError

IDENTIFYING = (
    *("PatientName", "PatientID", "PatientBirthDate", "PatientBirthTime", "PatientAddress", "OtherPatientIDs"),
    *("PatientTelephoneNumbers", "PatientMotherBirthName", "InstitutionName", "InstitutionAddress"),
    *("InstitutionalDepartmentName", "ReferringPhysicianName", "PerformingPhysicianName", "OperatorsName"),
    *("PhysiciansOfRecord", "StationName", "AccessionNumber", "StudyID", "StudyDate", "SeriesDate", "AcquisitionDate"),
    *("ContentDate", "StudyTime", "SeriesTime", "AcquisitionTime", "ContentTime", "DeviceSerialNumber"),
)


def dicom_findings(path: Path) -> list[tuple[Literal["error", "remark"], str]]:
    try:
        dataset = read_dicom_head(path)
    except UnreadableImageError as error:
        return [("error", f"it is no readable DICOM file ({error.problem})")]
    found: list[tuple[Literal["error", "remark"], str]] = [
        ("error", f"the tag {name} is filled; empty it") for name in IDENTIFYING if str(dataset.get(name, "") or "")
    ]
    if any(element.tag.is_private for element in dataset):
        found.append(("remark", "there are private tags; nobody knows what they hold"))
    if str(dataset.get("BurnedInAnnotation", "")).upper() == "YES":
        found.append(("error", "it says itself that text is burned into the image; paint it over"))
    return found
