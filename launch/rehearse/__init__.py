"""A training rehearsed on GPUs that are not there: what would fail on the first day on a cluster, found before it."""
