"""Public datasets of operations: one module each, with its layout as `SOURCE`."""
