"""Heads on feature maps: segmentation and detection."""
