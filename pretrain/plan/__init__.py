"""What a training will need, before it begins: parameters, memory, work, time."""
