"""Shards to checkpoints: the DINOv2 objective."""
