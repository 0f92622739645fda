from . import box_replies, choices, localization, replies

__all__ = [
    "box_replies",
    "choices",
    "localization",
    "replies",
]
