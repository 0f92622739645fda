"""What a training run will need, before it is submitted."""
