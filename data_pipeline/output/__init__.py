"""Finished frames to shards: merged, shuffled, written, verified, uploaded."""
