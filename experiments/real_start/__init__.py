"""Continued pretraining from real weights on real endoscopy; see `__main__`."""
