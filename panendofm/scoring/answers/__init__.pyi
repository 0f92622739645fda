from . import choices, localization, replies

__all__ = [
    "choices",
    "localization",
    "replies",
]
