"""Ports at which processes meet."""

from __future__ import annotations

import random
import socket

import pytest

from panendofm.runtime.ports import FIRST_PORT, PORTS, free_port


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
    """Linux takes their ports from 32768 on, unless it was told otherwise; those below 1024 are the system's."""
    assert FIRST_PORT >= 1024 and FIRST_PORT + PORTS <= 32768


def test_two_who_ask_at_once_are_given_two() -> None:
    assert len({free_port() for _ in range(20)}) > 15
