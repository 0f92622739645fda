"""Images with masks or boxes, and their splits."""
