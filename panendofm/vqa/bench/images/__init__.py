"""The images of questions: their sources, and how they are prepared and marked."""
