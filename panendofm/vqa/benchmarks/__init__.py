"""One module for each benchmark, with its declaration as `BENCHMARK`."""
