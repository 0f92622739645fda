"""What is looked at in every frame before it may enter a shard."""
