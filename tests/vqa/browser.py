"""A real browser, driven over the WebDriver protocol: chromedriver takes plain JSON over HTTP."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from panendofm.runtime.ports import free_port

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def is_there() -> bool:
    return shutil.which("chromedriver") is not None and shutil.which("chromium") is not None


class Browser:
    def __init__(self, base: str) -> None:
        self._http = httpx.Client(base_url=base, timeout=60)
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1300,900",
        ]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._session = f"/session/{self._call('POST', '/session', wanted)['sessionId']}"

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        reply = self._http.request(method, path, json=body).json()["value"]
        if isinstance(reply, dict) and "error" in reply:
            raise RuntimeError(f"{path}: {reply['error']}: {reply.get('message')}")
        return reply

    def open(self, address: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def source(self) -> str:
        return str(self._call("GET", f"{self._session}/source"))

    def click(self, selector: str) -> None:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{found[_ELEMENT]}/click", {})

    def type(self, selector: str, text: str) -> None:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{found[_ELEMENT]}/value", {"text": text})

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """With the mouse, in pixels of the window."""
        moves = [
            {"type": "pointerMove", "duration": 0, "x": round(start[0]), "y": round(start[1])},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "duration": 50, "x": round((start[0] + end[0]) / 2), "y": round(end[1])},
            {"type": "pointerMove", "duration": 50, "x": round(end[0]), "y": round(end[1])},
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._call("POST", f"{self._session}/actions", {"actions": [mouse]})

    def press(self, key: str) -> None:
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._call("POST", f"{self._session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})

    def wait(self, script: str, seconds: float = 20) -> Any:
        """Until the script's value is true."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.run(f"return ({script})")
            if value:
                return value
            if time.monotonic() > deadline:
                raise RuntimeError(f"the page never showed: {script}\n{self.source()[:2000]}")
            time.sleep(0.05)

    def resize(self, width: int, height: int = 900) -> None:
        """The page's own size; windows of a desktop would not become so narrow."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": size}
        self._call("POST", f"{self._session}/goog/cdp/execute", command)

    def overflow_px(self) -> int:
        """By how much the page is wider than its window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def screenshot(self) -> bytes:
        return base64.b64decode(self._call("GET", f"{self._session}/screenshot"))

    def close(self) -> None:
        self._call("DELETE", self._session)
        self._http.close()


@contextmanager
def browser(log: Path) -> Iterator[Browser]:
    port = free_port()
    with log.open("wb") as stream:
        driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=stream, stderr=stream)
        try:
            deadline = time.monotonic() + 30
            while True:
                assert driver.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
                try:
                    if httpx.get(f"http://127.0.0.1:{port}/status", timeout=2).json()["value"]["ready"]:
                        break
                except httpx.TransportError:
                    time.sleep(0.1)
            page = Browser(f"http://127.0.0.1:{port}")
            try:
                yield page
            finally:
                page.close()
        finally:
            driver.terminate()
            driver.wait(20)
