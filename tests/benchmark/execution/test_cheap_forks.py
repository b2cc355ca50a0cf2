"""A server's memory moves to huge pages and stays what it was, for the server and for its jobs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmark.paths import ROOT

SERVER = """
import hashlib, os, re, sys
from pathlib import Path
from benchmark.execution import cheap_forks

rows = [bytes([n % 256]) * 4096 for n in range(16384)]
digest = lambda: hashlib.sha256(b"".join(rows)).hexdigest()
memory = Path("/proc/self/smaps_rollup")
huge = lambda: int(re.search(r"AnonHugePages:\\s*(\\d+)", memory.read_text())[1])
before, kilobytes = digest(), huge()
for number in range(cheap_forks.MANY):
    cheap_forks.prepare_fork()
    job = os.fork()
    if not job:
        seen = digest() == before
        rows[0] = b"another"
        os._exit(0 if seen and digest() != before else 1)
    if os.waitpid(job, 0)[1] or digest() != before:
        sys.exit(f"fork {number} has changed something")
print(huge() - kilobytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux only")
def test_memory_is_the_same_on_huge_pages_for_server_and_jobs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVER], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if int(done.stdout) == 0:
        pytest.skip("this kernel does not put memory on huge pages when asked to")
    assert int(done.stdout) > 32 << 10, "most of the 64 MiB"
