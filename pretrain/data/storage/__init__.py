"""Where every sample lies, and how its bytes are read."""
