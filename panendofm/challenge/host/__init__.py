"""A challenge for an existing platform: what it hosts, and the program by which it scores."""
