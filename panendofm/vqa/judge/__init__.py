"""A language model that rates texts by a rubric."""
