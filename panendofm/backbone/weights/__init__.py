"""Weights in: files and folders of any origin."""
