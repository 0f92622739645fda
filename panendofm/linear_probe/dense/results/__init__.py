"""Metrics, files and pages of dense tasks."""
