"""Nearest neighbors and their vote."""
