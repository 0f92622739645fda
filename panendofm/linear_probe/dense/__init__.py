"""Segmentation and detection on frozen features: `run.py` is the way through, `predict.py` uses what it trained."""
