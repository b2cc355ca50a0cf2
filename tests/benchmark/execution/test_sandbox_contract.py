"""The sandbox contract, one suite for bubblewrap, Landlock and the audit hook.

Built-in submissions of each kind work in all of them and give the same answers; hostile ones reach
nothing outside and leave nothing for a later job.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from benchmark.cli import listing
from benchmark.execution import landlock, namespaces, sandbox, seccomp
from benchmark.execution.engines.local import LocalEngine
from benchmark.results.schema import Record, Status
from benchmark.runs.attack_run import Run
from benchmark.runs.plan import Selection, plan_cells
from benchmark.runs.utility_plan import plan_utility
from benchmark.runs.utility_run import UtilityRun
from tests.conftest import ROOT
from tests.harness import Quiet

RunIn = Callable[..., list[Record]]
ANSWERS: dict[str, object] = {}
"""What the first sandbox gave, by what was asked; the others must give the same."""


@pytest.fixture(scope="module", params=sandbox.SANDBOXES)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each sandbox in turn, as `LEAKBOARD_SANDBOX` would ask for it."""
    if not sandbox.works(request.param):
        pytest.skip(f"{request.param} does not work on this machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAKBOARD_SANDBOX", request.param)
        sandbox.sandbox_kind.cache_clear()
        yield request.param
    sandbox.sandbox_kind.cache_clear()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def own_engine(kind: str, plugins: Path, cache: Path, results: Path) -> Iterator[LocalEngine]:
    with LocalEngine(["cpu"], threads=1, hidden=[results]) as engine:
        yield engine


@pytest.fixture(scope="module")
def run_in(own_engine: LocalEngine, results: Path) -> RunIn:
    """Run one attack on a task, in one sandbox."""
    attacks = listing.submissions("attack", own_engine)
    defenses = listing.submissions("defense", own_engine)

    def run(attack: str, defense: str = "none") -> list[Record]:
        choice = Selection("mini", "mini/cola", attack, defense, force=True)
        cells = plan_cells(choice, attacks, defenses, results)
        return Run(own_engine, Quiet(), 60.0, 8000.0, "cpu").run(cells)

    return run


def answers(records: list[Record]) -> list[object]:
    assert [r.status for r in records] == [Status.OK] * len(records), [r.reason for r in records]
    return [[s.sentences, s.token_types, s.digest] for r in records for s in r.snapshots]


# -------------------------------------------------------------------------- built-in submissions


@pytest.mark.parametrize(
    ("attack", "defense"),
    [
        ("bag_of_words", "none"),
        ("lamp_cos_quick[steps=4]", "none"),
        ("dager[rounds=1,work=0.5]", "gaussian_noise"),
        ("random", "dpsgd"),
        ("bag_of_words", "prune"),
    ],
)
def test_built_in_attacks_and_defenses_answer_alike(
    kind: str, run_in: RunIn, attack: str, defense: str
) -> None:
    found = answers(run_in(attack, defense))
    assert found == ANSWERS.setdefault(f"{attack} {defense}", found)


def test_a_built_in_defense_trains_alike(kind: str, own_engine: LocalEngine, results: Path) -> None:
    defenses = listing.submissions("defense", own_engine)
    choice = Selection("mini", "mini/cola", None, "freeze_embeddings", force=True)
    trials = plan_utility(choice, defenses, results)[:1]
    records = UtilityRun(own_engine, Quiet(), 120.0, 8000.0).run(trials)  # type: ignore[arg-type]
    assert [r.status for r in records] == [Status.OK], records[0].reason
    assert records[0].metrics == ANSWERS.setdefault("training", records[0].metrics)


def test_an_honest_attack_may_use_its_temporary_folder(kind: str, run_in: RunIn) -> None:
    record = run_in("tidy")[0]
    assert record.status is Status.OK, record.reason
    assert json.loads(record.snapshots[0].note)[-1] is True


# ------------------------------------------------------------------------------- jobs that remember

NATIVE_ONLY = {
    "message queue", "System V memory", "System V queue", "System V semaphore", "host name",
    "session keyring", "user keyring", "user session keyring",
}  # fmt: skip
"""Channels that only native code can use, which an audit hook alone does not see."""


def test_no_job_remembers_what_another_saw(kind: str, run_in: RunIn) -> None:
    """More than forty channels, all in one job; then another job looks into each."""
    token = random.SystemRandom().randrange(1 << 10, 1 << 20)  # no note of an earlier test
    left = run_in(f"memory[phase=leave,token={token}]")[0]
    assert left.status is Status.OK, left.reason
    tried = json.loads(left.snapshots[0].note)
    assert tried["file in scratch"] is True  # it did try
    assert len(tried) > 40
    looked = run_in(f"memory[phase=find,token={token}]")[0]
    assert looked.status is Status.OK, looked.reason
    seen = json.loads(looked.snapshots[0].note)
    found = {name for name, answer in seen.items() if answer is True}
    if kind == sandbox.AUDIT_HOOK and not seccomp.available():
        found -= NATIVE_ONLY
    assert found == set()
    assert run_in("random")[0].status is Status.OK


def test_a_defense_cannot_tell_an_attack_by_leaving_notes(kind: str, run_in: RunIn) -> None:
    record = run_in("reader", "stash")[0]
    assert record.status is Status.OK, record.reason
    assert {result.note for result in record.snapshots} == {""}


# ------------------------------------------------------------------------------------- ways outside


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder with a secret, a file that may not be removed, and sockets that listen."""
    (tmp_path / "secret.txt").write_text("the private text")
    (tmp_path / "removable.txt").write_text("kept")
    ctypes.CDLL(None).shmget(4713, 4096, 0o1600)
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        named.bind(str(tmp_path / "socket"))
        abstract.bind("\0leakboard-test")
        named.listen()
        abstract.listen()
        yield tmp_path
    memory = ctypes.CDLL(None).shmget(4713, 4096, 0o600)
    ctypes.CDLL(None).shmctl(memory, 0, None)


def test_no_probe_gets_outside(kind: str, run_in: RunIn, outside: Path) -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    listed = {path: path.stat().st_mode for path in sorted(outside.iterdir())}
    record = run_in(f"probe[secret={outside},process={os.getpid()}]")[0]
    signal.signal(signal.SIGUSR1, before)
    assert record.status is Status.OK, record.reason
    report = json.loads(record.snapshots[0].note)
    assert len(report) > 35
    allowed = {"list"} if kind == sandbox.AUDIT_HOOK else set()
    if kind == sandbox.AUDIT_HOOK:  # which does not see native code
        allowed |= {"native_open"}
    through = {name for name, answer in report.items() if not answer.startswith("refused")}
    assert through - allowed == set(), {name: report[name] for name in through}
    assert caught == []
    assert {path: path.stat().st_mode for path in sorted(outside.iterdir())} == listed
    assert (outside / "secret.txt").read_text() == "the private text"
    assert (outside / "removable.txt").read_text() == "kept"
    assert not (ROOT / "benchmark" / "planted.py").exists()
    assert not Path(json.__file__).with_name("planted.py").exists()


def test_results_are_hidden_wherever_they_lie(
    kind: str, plugins: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also below a folder that submissions may read, such as one of the system's."""
    library = tmp_path / "library"
    (library / "results").mkdir(parents=True)
    (library / "results" / "secret.txt").write_text("x")
    (library / "code.py").write_text("x")
    monkeypatch.setattr(sandbox, "SYSTEM", (*sandbox.SYSTEM, str(library)))
    limits = sandbox.describe_limits(tmp_path, [library / "results"])
    assert str(library / "code.py") in limits.readable
    assert not any(str(library / "results").startswith(path) for path in limits.readable)


def test_a_hanging_job_and_all_it_started_end_with_its_harness(
    kind: str, plugins: Path, cache: Path, tmp_path: Path
) -> None:
    """`kill -9` of the harness in the middle of a job that never ends."""
    way = "hang" if kind == sandbox.AUDIT_HOOK else "fork"
    command = [sys.executable, "-m", "benchmark.cli", "run", "--task", "cola", "--jobs", "1",
               "--attack", f"naughty[way={way}]", "--results", str(tmp_path)]  # fmt: skip
    variables = os.environ | {"LEAKBOARD_SUBMISSIONS": str(plugins)}
    process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL)
    family: list[psutil.Process] = []
    for _ in range(300):
        time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        if len(family) >= (4 if namespaces.available() else 2):
            break
    assert family
    time.sleep(1.0)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []


def test_a_lost_server_is_one_failed_cell(
    kind: str, own_engine: LocalEngine, run_in: RunIn
) -> None:
    """Someone ends the fork server from outside; the next job gets a new one."""
    assert run_in("random")[0].status is Status.OK
    for slot in own_engine._slots:
        if slot.process is not None:
            slot.process.kill()
            slot.process.wait()
    assert run_in("random")[0].status is Status.ERROR
    assert run_in("random")[0].status is Status.OK


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
def test_a_sandbox_that_does_not_work_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "works", lambda kind: False)
    monkeypatch.setenv("LEAKBOARD_SANDBOX", "bubblewrap")
    sandbox.sandbox_kind.cache_clear()
    with pytest.raises(Exception, match="does not work here"):
        sandbox.sandbox_kind()
    sandbox.sandbox_kind.cache_clear()
