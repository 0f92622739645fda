"""Prediction files → checked, scored, ranked and timed; several doctors' annotations → gold; a regulator's record.

Files only: no network is loaded here and no torch is imported.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
