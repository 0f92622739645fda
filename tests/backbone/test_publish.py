"""`panendofm publish` against a server of this machine that speaks the hub's protocol."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fork_server
import pytest
from backbone_cases import random_model, save_checkpoint

from panendofm.backbone import vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.release import export_release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("publish")
    save_checkpoint(random_model(vit_config("vit_test")), folder / "step_0000007")
    formats = ["hub", "transformers"]
    export_release(folder / "step_0000007", ExportConfig(str(folder / "mine"), formats=formats, license="apache-2.0"))
    return folder / "mine"


class Hub(ThreadingHTTPServer):
    """As much of the hub as an upload asks; every small file is sent in the commit itself."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.created: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.refuses = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(self.path)
        assert self.headers["Authorization"] == "Bearer hf_of_a_test"
        if self.server.refuses:
            self._answer({"error": "You don't have the rights to create a model under ada"}, 403)
        elif self.path == "/api/repos/create":
            self.server.created = json.loads(body)
            self._answer({"url": f"{self.server.address}/ada/mine"})
        elif self.path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._answer({"files": files})
        elif self.path.endswith("/commit/main"):
            rows = [json.loads(line) for line in body.splitlines()]
            files = {row["value"]["path"]: row["value"]["content"] for row in rows if row["key"] == "file"}
            self.server.files = {name: base64.b64decode(content) for name, content in files.items()}
            self._answer({"success": True, "commitUrl": f"{self.server.address}/ada/mine/commit/1", "commitOid": "1"})
        else:
            self._answer({"errors": [], "warnings": []})

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self._answer({"id": "ada/mine", "siblings": [], "sha": "0"})

    def _answer(self, content: object, status: int = 200) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def publish(release: Path, hub: Hub, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"HF_ENDPOINT": hub.address, "HF_TOKEN": "hf_of_a_test", "HF_HUB_OFFLINE": "0"}
    return fork_server.run_module("panendofm", "publish", str(release), *words, environment=os.environ | environment)


def test_nothing_is_sent_unless_it_is_asked_for(release: Path, hub: Hub) -> None:
    done = publish(release, hub, "repository=ada/mine")
    assert done.returncode == 0, done.stderr
    assert "would send" in done.stdout and "nothing was sent" in done.stdout
    assert "transformers/model.safetensors" in done.stdout
    assert hub.asked == []


def test_the_hub_gets_the_files_of_the_release_alone(release: Path, hub: Hub) -> None:
    stranger = release / "image.jpg"
    stranger.write_bytes(b"not part of the release")
    done = publish(release, hub, "repository=ada/mine", "upload=true")
    stranger.unlink()
    assert done.returncode == 0, done.stderr
    expected = {path.relative_to(release).as_posix(): path for path in release.rglob("*") if path.is_file()}
    assert hub.files == {name: path.read_bytes() for name, path in expected.items()}
    assert hub.created["visibility"] == "private" and "commit/1" in done.stdout


def test_a_refusal_is_one_sentence(release: Path, hub: Hub) -> None:
    hub.refuses = True
    done = publish(release, hub, "repository=ada/mine", "upload=true")
    assert done.returncode == 2 and "don't have the rights" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_not_intact_is_not_sent(release: Path, hub: Hub) -> None:
    card = release / "README.md"
    text = card.read_text()
    card.write_text(text + "added later\n")
    done = publish(release, hub, "repository=ada/mine", "upload=true")
    card.write_text(text)
    assert done.returncode == 2 and "README.md was changed" in done.stderr
    assert hub.asked == []


def test_an_odd_name_is_refused(release: Path, hub: Hub) -> None:
    done = publish(release, hub, "repository=mine")
    assert done.returncode == 2 and "write OWNER/NAME" in done.stderr
