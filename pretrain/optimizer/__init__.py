"""Losses to weights: schedules, parameter groups, clipping, one step."""
