"""Weights out: a release folder with every format, checked, and its model card."""

from backbone.release.export import export_release
from backbone.release.formats import Export

__all__ = ["Export", "export_release"]
