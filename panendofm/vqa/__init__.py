"""Questions about endoscopy pictures: built from an atlas, asked of models and people, scored."""
