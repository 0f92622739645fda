"""Ranking scored submissions."""
