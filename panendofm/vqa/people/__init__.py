"""People: an exam page for readers, a rating page for experts."""
