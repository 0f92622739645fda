"""Shards to batches: which samples a step sees, their bytes, their crops and masks."""
