"""Whether a machine or cluster can train: every part of a training tried on it, before the first real job."""
