"""A stage as a job: described, submitted, watched, started again."""
