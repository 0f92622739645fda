"""Trained heads on new images and videos."""
