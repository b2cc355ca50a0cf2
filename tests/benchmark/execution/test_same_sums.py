"""The same product has the same digits in every job, wherever its operands lie in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmark.execution.sandbox import environment

PRODUCTS = """
import torch

def placed(values, offset):
    size = 4 * values.numel()
    memory = torch.zeros(size + 256, dtype=torch.uint8)
    start = -memory.data_ptr() % 64 + offset
    return memory[start : start + size].view(torch.float32).view(values.shape).copy_(values)

torch.manual_seed(0)
for rows, inner, columns in [(14, 96, 96), (2, 96, 1), (7, 96, 2600), (96, 13, 384), (11, 384, 96)]:
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    found = [placed(left, at) @ placed(right, at) for at in (0, 4, 8, 16, 32, 48)]
    assert all(torch.equal(found[0], other) for other in found), (rows, inner, columns)
"""


def test_a_product_does_not_depend_on_addresses(tmp_path: Path) -> None:
    """Without the setting two of these shapes differ in their last digits on some processors."""
    done = subprocess.run(
        [sys.executable, "-c", PRODUCTS],
        env=environment(1, "cpu", tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
