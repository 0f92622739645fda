"""Labeled sets of any kind: one reader, and their gallery and queries."""
