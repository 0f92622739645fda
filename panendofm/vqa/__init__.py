"""Questions about endoscopy images: built from an atlas, asked of models and people, scored."""
