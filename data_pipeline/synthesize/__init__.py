"""A synthetic endoscopy corpus in the layouts of the real ones, so that the whole pipeline runs without a download."""

from data_pipeline.synthesize.corpus import synthesize

__all__ = ["synthesize"]
