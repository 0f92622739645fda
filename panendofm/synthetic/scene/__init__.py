"""How one image is drawn: wall, lesions, device, motion."""
