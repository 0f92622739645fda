"""Is the run well? Non-finite steps, collapse, kNN, early stopping, and rolling back when training does harm."""
