"""How questions are made: tasks, wording, options."""
