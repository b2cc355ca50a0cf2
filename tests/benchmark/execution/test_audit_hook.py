"""The audit hook alone, without the kernel's help: what Python does outside is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

PROBE = ROOT / "tests" / "benchmark" / "odd_submissions" / "attacks" / "probe.py"
NOT_SEEN = {"native_open", "trace", "shared_memory_of_outside"}
"""Native code, which no hook sees."""
SCRIPT = """
import json, os, runpy, sys, tempfile
scratch, secret, probe, root = sys.argv[1:]
os.environ["TMPDIR"] = tempfile.tempdir = scratch
module = runpy.run_path(probe)
import benchmark, fcntl, resource, shutil, socket, subprocess
from benchmark.execution import audit_hook
readable = [sys.prefix, sys.base_prefix, "/usr", "/lib", "/proc", os.path.join(root, "benchmark")]
audit_hook.install(readable, [], [scratch, "/dev/null"])
attack = module["Probe"](secret=secret, process=1)
print(attack.recover(None).note)
"""


def test_python_code_reaches_nothing_outside(tmp_path: Path) -> None:
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    scratch.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("the private text")
    (outside / "removable.txt").write_text("kept")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, scratch, outside, PROBE, ROOT],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    through = {name for name, answer in report.items() if not answer.startswith("refused")}
    assert "native_open" in through  # the probe does look
    assert through - NOT_SEEN == set(), {name: report[name] for name in through}
    assert sorted(path.name for path in outside.iterdir()) == ["removable.txt", "secret.txt"]
    assert (outside / "removable.txt").read_text() == "kept"
