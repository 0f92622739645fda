from . import dicom, frame_filters, groups, image_hash, images, leakage, text_detector, videos

__all__ = [
    "dicom",
    "frame_filters",
    "groups",
    "image_hash",
    "images",
    "leakage",
    "text_detector",
    "videos",
]
