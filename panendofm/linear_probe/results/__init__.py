"""Results as files: JSON, CSV, Markdown, LaTeX, images and one HTML page."""
