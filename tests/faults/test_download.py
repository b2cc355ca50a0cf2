"""Weights that arrive in part, or with another hash: never used, and fetched again."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchmark.errors import UserError
from tasks.models import packages
from tests.conftest import ROOT

WEIGHTS = ROOT / "tasks" / "models" / "weights" / "bert-cola"
REVISION = "0123456789abcdef0123456789abcdef01234567"
NAME = f"hub:someone/model@{REVISION}"
LOCATE = f"from tasks.models.resolve import locate; print(locate({NAME!r}))"


class Hub(BaseHTTPRequestHandler):
    """As much of a model hub as its client asks for; drops the connection where it is told to."""

    dropped: ClassVar[list[str]] = []

    def __init__(self, drops: list[str], *given: Any) -> None:
        self.drops = drops
        super().__init__(*given)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        name = self.path.rpartition("/")[2].partition("?")[0]
        if self.path.startswith("/api/"):
            self._send(json.dumps(_listing("/tree/" in self.path)).encode(), body, "listing")
        elif (WEIGHTS / name).is_file():
            self._send((WEIGHTS / name).read_bytes(), body, name)
        else:
            self.send_error(404)

    def _send(self, content: bytes, body: bool, name: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.end_headers()
        if body and name in self.drops:
            self.dropped.append(name)
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.connection.shutdown(2)
        elif body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


def _listing(tree: bool) -> object:
    """The files of the repository, in one of the two forms that clients ask for."""
    files = sorted(WEIGHTS.iterdir())
    if tree:
        return [
            {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": path.name}
            for path in files
        ]
    named = [{"rfilename": path.name} for path in files]
    return {"id": "someone/model", "sha": REVISION, "siblings": named, "private": False, "tags": []}


@pytest.fixture
def hub() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the files that it sends in part."""
    drops: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, drops))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", drops
    server.shutdown()
    server.server_close()


def locate(address: str, home: Path) -> subprocess.CompletedProcess[str]:
    variables = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0",
                 "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", LOCATE], capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | variables, timeout=120,
    )  # fmt: skip


def test_a_download_that_breaks_off_is_not_used_and_goes_on_later(
    hub: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, drops = hub
    drops.append("model.safetensors")
    broken = locate(address, tmp_path)
    assert broken.returncode != 0
    assert Hub.dropped
    last = broken.stderr.strip().splitlines()[-1]
    assert "UserError: The hub" in last
    assert "someone/model at revision" in last
    assert not list(tmp_path.rglob("snapshots/*/model.safetensors"))
    drops.clear()
    whole = locate(address, tmp_path)
    assert whole.returncode == 0, whole.stderr
    folder = Path(whole.stdout.strip().splitlines()[-1])
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (WEIGHTS / name).read_bytes()


def test_weights_with_another_hash_are_refused_and_not_kept(cache: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"other weights")

    wrong = {"model.safetensors": hashlib.sha256(b"the weights").hexdigest()}
    with pytest.raises(UserError, match="is not the file that Leakboard knows"):
        packages._prepared("wrong-hash", wrong, write)
    assert not list((cache / "models").glob("*wrong-hash*"))
    right = {"model.safetensors": hashlib.sha256(b"other weights").hexdigest()}
    folder = packages._prepared("wrong-hash", right, write)
    (folder / "model.safetensors").write_bytes(b"changed later")
    with pytest.raises(UserError, match=r"is not the file .*delete .* to have it prepared again"):
        packages._prepared("wrong-hash", right, write)
