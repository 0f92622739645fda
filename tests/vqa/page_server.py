"""`panendofm vqa exam` or `rate` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys


class PageServer:
    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "panendofm.vqa", *words],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.address = ""
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            if found:
                self.address = found[0]
                break
        assert self.address, "the server did not start"

    def at(self, path: str) -> str:
        """The address of a route, token included."""
        return self.address.replace("/?", f"{path}?")

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
