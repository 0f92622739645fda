"""What a run keeps: its folder, checkpoints, logs; how it is stopped and resumed."""
