"""Pages on a finished set of shards."""
