"""The stages as one pipeline: the demo."""
