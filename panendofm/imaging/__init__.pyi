from . import frame_filters, groups, image_hash, images, leakage, videos

__all__ = [
    "frame_filters",
    "groups",
    "image_hash",
    "images",
    "leakage",
    "videos",
]
