"""What is looked at in a picture: its field of view, the position box, whether it is fit for use."""
