"""How public datasets lie on disk, what their labels mean, and what is known of them."""
