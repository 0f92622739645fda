"""Annotations drawn in other tools: their exports become acts of the log, and open work of the log becomes tasks."""
