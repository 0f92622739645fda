"""Benches: how questions are made, stored, imported and exported."""
