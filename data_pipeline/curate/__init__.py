"""Curation: features of all frames → hierarchical clusters → balanced weights for training."""
