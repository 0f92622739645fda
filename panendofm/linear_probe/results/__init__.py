"""Results as files: JSON, CSV, Markdown, LaTeX, pictures and one HTML page."""
