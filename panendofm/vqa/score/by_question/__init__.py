"""A leaderboard with a column for each question type: models, readers and groups of readers, boxes, rated texts."""
