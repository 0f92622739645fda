"""Checkpoint to score: kNN on a labelled set, selection of the best checkpoint, early stopping."""
