"""What is asked of every source and frame before it may enter a shard."""
