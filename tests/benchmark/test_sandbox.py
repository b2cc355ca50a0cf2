"""A submission that looks everywhere finds neither the truth nor the network."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark import landlock, sandbox
from benchmark.registry import load_task, tasks
from tasks import corpora
from tests.conftest import ROOT, Command
from tests.harness import RunCells


def private_sentences() -> list[str]:
    """The sentences behind the snapshots, and the private split that they were drawn from."""
    side = load_task(tasks()["mini/cola"])
    drawn = [s.text for i in range(8) for s in side.private_batch(i, 0).truth.sentences]
    whole = [row.text for row in corpora.load("builtin:cola", "private")]
    return [text.lower() for text in drawn + whole if len(text) > 20]


def check_report(note: str) -> dict[str, object]:
    """No private sentence in anything that the spy saw, and no way out."""
    report: dict[str, object] = json.loads(note)
    seen = note.lower()
    leaked = [text for text in private_sentences() if json.dumps(text)[1:-1] in seen]
    assert leaked == []
    assert str(report["network"]).startswith("none")
    assert str(report["corpus"]).startswith("refused")
    return report


@pytest.fixture
def listener() -> Iterator[int]:
    """A server outside the fence that nobody may reach."""
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
    report = check_report(record.snapshots[0].note)
    assert len(report["memory"]) > 100  # type: ignore[arg-type]  # it did look
    assert len(report["attributes"]) > 100  # type: ignore[arg-type]
    assert "LEAKBOARD_CACHE" not in str(report["environment"])


@pytest.mark.parametrize("fence", [sandbox.LANDLOCK, sandbox.AUDIT_HOOK])
def test_the_spy_finds_nothing_without_bubblewrap(
    fence: str, leakboard: Command, plugins: Path, tmp_path: Path, listener: int
) -> None:
    if fence == sandbox.LANDLOCK and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    done = leakboard(
        "run", "--task", "cola", "--attack", f"spy[port={listener}]", "--results", tmp_path,
        LEAKBOARD_SANDBOX=fence, LEAKBOARD_SUBMISSIONS=plugins,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / f"mini/cola/none/spy[port={listener}].s0.json").read_text())
    assert record["provenance"]["sandbox"] == fence
    check_report(record["snapshots"][0]["note"])


def test_hidden_folders_are_cut_out_of_readable_ones() -> None:
    readable = [path.resolve() for path in sandbox.readable_paths()]
    secrets = ("tasks/corpora/builtin", "tasks/reference/mini.json", "leaderboard", "tests")
    for secret in (ROOT / name for name in secrets):
        assert not any(secret.is_relative_to(path) for path in readable), secret
    assert any((ROOT / "tasks/models/loading.py").is_relative_to(path) for path in readable)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_fence_holds_against_native_code(tmp_path: Path) -> None:
    """A shell inside the fence: no corpus, no other process, no network device."""
    inbox, outbox = tmp_path / "in", tmp_path / "out"
    inbox.mkdir()
    outbox.mkdir()
    command = sandbox.command(["x"], inbox, outbox)
    shell = command[: command.index("--", command.index("--chdir"))]
    look = f"ls {ROOT}/tasks; ls {ROOT}/tests; cat /proc/net/dev; touch {inbox}/x; echo done"
    seen = subprocess.run([*shell, "--", "/bin/sh", "-c", look], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert "done" in seen.stdout
    assert "corpora" not in seen.stdout
    assert "eth" not in seen.stdout
    assert "cannot access" in seen.stderr
    assert "Read-only file system" in seen.stderr
    assert sys.prefix in " ".join(command)
