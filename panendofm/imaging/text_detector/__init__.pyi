from .network import Polygon, detect_text

__all__ = ["Polygon", "detect_text"]
