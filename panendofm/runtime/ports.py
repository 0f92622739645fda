"""Ports at which the processes of a job meet."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel takes those of outgoing connections: one of these would be free when it is
# chosen and taken, by whoever connects to anything, when it is listened on.
FIRST_PORT, PORTS = 12000, 20000


def free_port() -> int:
    """A port that nobody listens on. Drawn at random, so that two who ask at once are given two."""
    drawn = random.SystemRandom()
    while True:
        port = FIRST_PORT + drawn.randrange(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
