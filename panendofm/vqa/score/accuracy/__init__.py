"""A leaderboard of multiple-choice questions: accuracy against chance, and what an answer hangs on."""
