"""What continued pretraining does to a backbone whose heads are gone, and what the warm start does about it."""
