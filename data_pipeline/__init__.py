"""Videos and images of the public corpora to clean, de-identified, leak-checked WebDataset shards."""
