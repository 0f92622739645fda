"""Scores, shortcuts, contamination, leaderboards."""
