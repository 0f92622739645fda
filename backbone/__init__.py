"""The ViT and its weights: what a downstream user imports."""
