"""Scoring one submission: labels, boxes, masks, videos."""
