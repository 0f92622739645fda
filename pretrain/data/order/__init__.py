"""Which sample comes when, whatever the ranks, workers and restarts."""
