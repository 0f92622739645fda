"""Weights out: a release folder with every format, checked, and its model card."""

from backbone.release.export import export_release
from backbone.release.formats import Export
from backbone.release.verify import verify_release

__all__ = ["Export", "export_release", "verify_release"]
