"""Prediction files → checked, scored, ranked and timed; several doctors' annotations → gold; a regulator's record.

Files only: no network is loaded here and no torch is imported.
"""
