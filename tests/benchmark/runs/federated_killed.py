"""One small federated training in a process of its own, which a test kills; takes its results."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmark.cli import listing
from benchmark.execution.engines.local import LocalEngine
from tests.benchmark.runs.federated_setup import run_trials, small_task, small_trial

if __name__ == "__main__":
    with LocalEngine(["cpu", "cpu"], threads=1) as engine:
        defenses = listing.submissions("defense", engine)
        run_trials(engine, [small_trial(small_task(), defenses, "fede_vocab", Path(sys.argv[1]))])
