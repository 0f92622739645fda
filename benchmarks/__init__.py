"""How fast the pipeline is, beside peers and limits. `python -m benchmarks` runs all of them at a small size."""
