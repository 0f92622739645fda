"""Adapt released weights to a small set of images, and say whether that made them better."""
