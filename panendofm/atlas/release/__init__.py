"""An atlas for others: a folder without local paths, and the way back to an atlas."""
