"""The processes of a run, what they tell each other, and how parameters lie over them."""
