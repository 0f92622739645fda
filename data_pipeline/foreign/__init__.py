"""Images that others prepared: imported as a shard set, and compared with evaluation sets afterwards."""
