"""GI-Bench's scores: models, readers and groups in one leaderboard."""
