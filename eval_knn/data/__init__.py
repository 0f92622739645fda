"""The labelled set of an evaluation: images, split, leakage."""
