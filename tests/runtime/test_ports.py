"""Ports at which processes meet."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from runtime.ports import FIRST_PORT, PORTS, free_port


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_port()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        draws = iter([taken - FIRST_PORT, free - FIRST_PORT])
        monkeypatch.setattr(random.SystemRandom, "randrange", lambda self, count: next(draws))
        assert free_port() == free


def test_no_outgoing_connection_can_take_one() -> None:
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert FIRST_PORT >= 1024 and int(first) >= FIRST_PORT + PORTS


def test_two_who_ask_at_once_are_given_two() -> None:
    assert len({free_port() for _ in range(20)}) > 15
