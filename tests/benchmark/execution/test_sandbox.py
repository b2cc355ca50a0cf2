"""A submission that looks everywhere finds neither the truth nor the network."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.execution import sandbox
from benchmark.plugins.registry import all_tasks, load_task
from tasks import corpora
from tests.conftest import ROOT, Command
from tests.harness import RunCells


def private_sentences() -> list[str]:
    """The sentences behind the snapshots, and the private split that they were drawn from."""
    side = load_task(all_tasks()["mini/cola"])
    drawn = [s.text for i in range(8) for s in side.private_batch(i, 0).truth.sentences]
    whole = [row.text for row in corpora.load("builtin:cola", "private")]
    return [text.lower() for text in drawn + whole if len(text) > 20]


def check_report(sentences: list[list[int]]) -> dict[str, object]:
    """No private sentence in anything that the spy saw, and no way out."""
    text = zlib.decompress(b"".join(map(bytes, sentences))).decode()
    report: dict[str, object] = json.loads(text)
    seen = text.lower()
    leaked = [text for text in private_sentences() if json.dumps(text)[1:-1] in seen]
    assert leaked == []
    assert str(report["network"]).startswith("none")
    assert str(report["corpus"]).startswith("refused")
    return report


@pytest.fixture
def listener() -> Iterator[int]:
    """A server outside the sandbox that nobody may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=3):
            server.accept()[0].close()  # from here it can be reached
        server.settimeout(0.1)
        yield port
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_spy_finds_nothing(run_cells: RunCells, listener: int) -> None:
    record = run_cells(f"spy[port={listener}]")[0]
    assert record.status == "ok", record.reason
    report = check_report([snapshot.sentences[0] for snapshot in record.snapshots])
    assert len(report["memory"]) > 100  # type: ignore[arg-type]  # it did look
    assert len(report["attributes"]) > 100  # type: ignore[arg-type]
    assert "LEAKBOARD_CACHE" not in str(report["environment"])


@pytest.mark.parametrize("kind", sandbox.SANDBOXES)
def test_the_spy_finds_nothing_in_any_sandbox(
    kind: str, leakboard: Command, plugins: Path, tmp_path: Path, listener: int
) -> None:
    if not sandbox.works(kind):
        pytest.skip(f"{kind} does not work on this machine")
    done = leakboard(
        "run", "--task", "cola", "--attack", f"spy[port={listener}]", "--results", tmp_path,
        LEAKBOARD_SANDBOX=kind, LEAKBOARD_SUBMISSIONS=plugins,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / f"mini/cola/none/spy[port={listener}].s0.json").read_text())
    assert record["provenance"]["sandbox"] == kind
    check_report([snapshot["sentences"][0] for snapshot in record["snapshots"]])


def test_hidden_folders_are_cut_out_of_readable_ones() -> None:
    readable = [path.resolve() for path in sandbox.readable_paths(sandbox.hidden_paths())]
    secrets = ("tasks/corpora/builtin", "tasks/reference/mini.json", "leaderboard", "tests")
    for secret in (ROOT / name for name in secrets):
        assert not any(secret.is_relative_to(path) for path in readable), secret
    assert any((ROOT / "tasks/models/loading.py").is_relative_to(path) for path in readable)


@pytest.mark.skipif(not sandbox.works(sandbox.BUBBLEWRAP), reason="bubblewrap does not work here")
def test_bubblewrap_holds_against_native_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell inside: no corpus, no other process, no network device."""
    limits = replace(sandbox.describe_limits(tmp_path), kind=sandbox.BUBBLEWRAP)
    command = sandbox.command(["x"], limits)
    shell = command[: command.index("--", command.index("--chdir"))]
    look = f"ls {ROOT}/tasks; ls {ROOT}/tests; cat /proc/net/dev; touch /usr/x; echo done"
    seen = subprocess.run([*shell, "--", "/bin/sh", "-c", look], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert "done" in seen.stdout
    assert "corpora" not in seen.stdout
    assert "eth" not in seen.stdout
    assert "cannot access" in seen.stderr
    assert "Read-only file system" in seen.stderr
    assert sys.prefix in " ".join(command)
