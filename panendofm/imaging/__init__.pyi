from . import dicom, frame_filters, groups, image_hash, images, leakage, videos

__all__ = [
    "dicom",
    "frame_filters",
    "groups",
    "image_hash",
    "images",
    "leakage",
    "videos",
]
