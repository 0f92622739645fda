"""Exported weights to PanEndoX tasks: tables with confidence intervals."""
