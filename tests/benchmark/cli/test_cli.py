"""The command as a user meets it: no-op re-runs, interruption, mistakes in one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, Command

pytestmark = pytest.mark.long

SMALL = ("run", "--task", "cola-b4", "--attack", "bag_of_words,prior_only,random")
"""Three cells: bag_of_words, prior_only, random."""


def stable(results: Path) -> dict[str, object]:
    """Everything in the records that may not depend on when or how fast they were made."""
    found: dict[str, object] = {}
    for path in sorted(results.rglob("*.json")):
        record = json.loads(path.read_text())
        if "prepare_seconds" not in record:
            continue  # scores, and what pages are drawn from
        for key in ("prepare_seconds", "peak_mb", "device_peak_mb"):
            record.pop(key)
        for snapshot in record["snapshots"]:
            snapshot.pop("seconds")
        record["provenance"].pop("created")
        found[str(path.relative_to(results))] = record
    return found


@pytest.fixture(scope="module")
def calm_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test puts the records of an undisturbed run."""
    return tmp_path_factory.mktemp("calm") / "results"


@pytest.fixture
def calm(leakboard: Command, calm_results: Path) -> dict[str, object]:
    """The records of a run that nobody disturbed."""
    assert leakboard(*SMALL, "--results", calm_results).returncode == 0
    return stable(calm_results)


def test_run_score_show_site(leakboard: Command, tmp_path: Path, calm_results: Path) -> None:
    results, site = calm_results, tmp_path / "site"
    plan = leakboard(*SMALL, "--results", results, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.startswith("3 cells: 0 cached, 3 to run, expected time")
    assert not results.exists()

    first = leakboard(*SMALL, "--results", results)
    assert first.returncode == 0, first.stderr
    assert "[3/3] ok" in first.stdout
    files = {path: path.stat().st_mtime_ns for path in results.rglob("*.json")}
    assert len(files) == 3

    again = leakboard(*SMALL, "--results", results)
    assert again.stdout.splitlines()[0] == "3 cells: 3 cached, 0 to run"
    assert files == {path: path.stat().st_mtime_ns for path in results.rglob("*.json")}

    assert leakboard("score", "--results", results).stdout.strip() == "3 scored"
    scores = {path: path.stat().st_mtime_ns for path in results.rglob("*.score.json")}
    (lost,) = results.rglob("random.*.score.json")
    lost.unlink()
    said = leakboard("score", "--results", results).stdout
    assert "1 scored" in said  # what has changed, and nothing else
    assert "2 unchanged" in said
    left = [path for path, changed in scores.items() if path.stat().st_mtime_ns == changed]
    assert sorted(left) == sorted(path for path in scores if path != lost)

    rows = json.loads(leakboard("show", "--results", results, "--json").stdout)
    keys = {"suite", "task", "attack", "defense", "status", "reason", "metrics", "seconds",
            "peak_mb", "device"}  # fmt: skip
    assert all(keys <= row.keys() for row in rows)
    by_attack = {row["attack"]: row["metrics"] for row in rows}
    found = by_attack["bag_of_words"]["type_f1"]
    assert (found["mean"], found["n"], found["high"]) == (1.0, 32, 1.0)
    assert 0.8 < found["low"] < 1  # 32 of 32 is no certainty
    assert 0 < by_attack["prior_only"]["rouge1"]["mean"] < 0.5
    assert "rougeL" not in by_attack["bag_of_words"]

    drawn = leakboard("site", "--results", results, "--out", site)
    assert drawn.returncode == 0, drawn.stderr
    assert (site / "index.html").resolve().as_uri() in drawn.stdout
    beside = tmp_path / "beside" / "index.html"
    ran = leakboard(*SMALL, "--results", results, "--site", beside.parent)
    assert f"The leaderboard is at {beside.resolve().as_uri()}" in ran.stdout
    assert beside.read_text() == (site / "index.html").read_text()


def test_killed_at_any_moment_then_run_again(
    leakboard: Command, tmp_path: Path, calm: dict[str, object]
) -> None:
    """`kill -9` in the middle, several times: no record is lost, none is half-written."""
    rough = tmp_path / "rough"
    command = [sys.executable, "-m", "benchmark.cli", *map(str, SMALL), "--results", str(rough)]
    kept: dict[str, bytes] = {}
    for moment in (1, 2):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "LEAKBOARD_SUBMISSIONS": ""},
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith((f"[{moment}/", "[1/1]")):
                break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for path in rough.rglob("*.json"):
            json.loads(path.read_text())
            name = str(path.relative_to(rough))
            assert kept.setdefault(name, path.read_bytes()) == path.read_bytes()
    assert kept
    assert leakboard(*SMALL, "--results", rough).returncode == 0
    for name, content in kept.items():
        assert (rough / name).read_bytes() == content
    assert stable(rough) == calm
    assert _workers_left() == 0


def _workers_left() -> int:
    """Workers of killed runs, given a moment to notice that their parent is gone."""
    import psutil

    for _ in range(50):
        orphans = [
            p for p in psutil.process_iter(["cmdline", "ppid"])
            if {"benchmark.execution.forkserver", "benchmark.execution.template"}
            & set(p.info["cmdline"] or []) and p.info["ppid"] == 1
        ]  # fmt: skip
        if not orphans:
            return 0
        time.sleep(0.1)
    return len(orphans)


def test_a_failed_cell_is_exit_code_1_and_runs_again(
    leakboard: Command, tmp_path: Path, plugins: Path
) -> None:
    arguments = ("run", "--task", "cola", "--attack", "naughty", "--results", tmp_path)
    done = leakboard(*arguments, LEAKBOARD_SUBMISSIONS=plugins)
    assert done.returncode == 1
    assert "1 of 1 cells failed" in done.stderr
    assert "error mini/cola · naughty · none: 16 of 16 snapshots failed" in done.stdout
    again = leakboard(*arguments, "--dry-run", LEAKBOARD_SUBMISSIONS=plugins)
    assert again.stdout.startswith("1 cell: 0 cached, 1 to run")


MISTAKES = [
    (("run", "--suite", "mnii"), "did you mean mini"),
    (("run", "--task", "coal"), "did you mean mini/cola"),
    (("run", "--attack", "bag_of_word"), "did you mean bag_of_words"),
    (("run", "--attack", "random[steps=5]"), "no parameter of random called 'steps'"),
    (("run", "--defense", "nine"), "did you mean none"),
    (("run", "--device", "tpu"), "'tpu' is not a device"),
    (("run", "--device", "cuda:7"), "--device cpu"),
    (("run", "--jobs", "many"), "Invalid value for '--jobs'"),
    (("run", "--time-limit", "-3"), "Invalid value for '--time-limit'"),
    (("run", "--time-limit", "inf"), "Invalid value for '--time-limit'"),
    (("run", "--memory-limit", "nan"), "Invalid value for '--memory-limit'"),
    (("run", "--nonsense"), "No such option"),
    (("run", "--task", ""), "--task '' has an empty name"),
    (("run", "--attack", "random,"), "--attack 'random,' has an empty name"),
    (("run", "--defense", " "), "has an empty name"),
    (("run", "--results", ""), "A folder or file name is empty"),
    (("run", "--task", "cola", "--site", ""), "A folder or file name is empty"),
    (("snapshots", "build", "--defense", ""), "--defense '' has an empty name"),
    (("show", "--json", "--csv"), "exclude each other"),
    (("describe", "dagr"), "did you mean dager"),
    (("walk",), "No such command 'walk'"),
    (("list", "attack"), "did you mean attacks"),
    (("show", "--results", "/no/such/folder"), "There is no folder"),
    (("score", "--results", "/no/such/folder"), "There is no folder"),
    (("site", "--results", "/no/such/folder"), "There is no folder"),
    (("snapshots", "build", "--task", "nope"), "There is no task called"),
    (("run", "--suite", "open", "--task", "open/cola"), "LEAKBOARD_DATA"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_sentence_and_exit_code_2(
    leakboard: Command, arguments: tuple[str, ...], words: str
) -> None:
    done = leakboard(*arguments, LEAKBOARD_DATA="", LEAKBOARD_SUBMISSIONS="")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_cache_that_cannot_be_written_is_named(leakboard: Command, tmp_path: Path) -> None:
    done = leakboard("run", "--task", "cola", "--results", tmp_path, LEAKBOARD_CACHE="/proc/nope")
    assert done.returncode == 2
    assert "/proc/nope" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("variable", "suite"),
    [("LEAKBOARD_CACHE", "mini"), ("LEAKBOARD_SUBMISSIONS", "mini"), ("LEAKBOARD_DATA", "open")],
)
def test_a_home_that_nobody_knows_is_named(leakboard: Command, variable: str, suite: str) -> None:
    words = ("run", "--suite", suite, "--task", "cola", "--attack", "random", "--dry-run")
    done = leakboard(*words, **{variable: "~nobody-at-all/x"})
    assert done.returncode == 2
    assert done.stderr.startswith(f"leakboard: {variable} is ~nobody-at-all/x")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["show", "score", "site"])
def test_a_corrupt_record_is_named_and_left_out(
    leakboard: Command, tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "results" / "mini"
    folder.mkdir(parents=True)
    (folder / "bad.s0.json").write_text('{"schema_version": 1')
    done = (
        leakboard(command, "--results", tmp_path / "results", "--out", tmp_path / "site")
        if (command == "site")
        else leakboard(command, "--results", tmp_path / "results")
    )
    assert done.returncode == (1 if command == "score" else 0), done.stderr
    assert done.stderr.count("bad.s0.json") == 1
    assert "is not a valid record" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_answers_without_torch(leakboard: Command) -> None:
    code = "import sys, benchmark.cli; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                          check=True)  # fmt: skip
    assert done.stdout.split() == ["False", "False"]
    assert "Commands:" in leakboard("--help").stdout


def test_doctor_names_the_sandbox(leakboard: Command) -> None:
    done = leakboard("doctor")
    assert done.returncode == 0
    assert "sandbox:" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    without = leakboard("doctor", LEAKBOARD_SANDBOX="audit-hook")
    assert "LOOK sandbox: an audit hook only" in without.stdout
    findings = json.loads(leakboard("doctor", "--json").stdout)
    assert {"topic", "fine", "sentence"} == findings[0].keys()
    assert leakboard("doctor", "--csv").stdout.startswith("topic,fine,sentence\n")


def test_stored_snapshots_as_text_and_data(leakboard: Command, tmp_path: Path) -> None:
    own = {"LEAKBOARD_CACHE": tmp_path}
    made = leakboard("snapshots", "build", "--task", "cola", "--jobs", 1, **own)
    assert made.stdout.strip() == "16 snapshots built, 0 were there"
    (row,) = json.loads(leakboard("snapshots", "list", "--json", **own).stdout)
    assert (row["task"], row["defense"], row["snapshots"]) == ("mini/cola", "none", 16)
    assert leakboard("snapshots", "list", "--csv", **own).stdout.splitlines()[0] == ",".join(row)
    head, line = leakboard("snapshots", "list", **own).stdout.splitlines()
    assert head.split()[0] == "task"
    assert line.split()[:2] == ["mini/cola", "none"]


def test_a_reader_that_has_read_enough_is_no_error() -> None:
    command = f"{sys.executable} -m benchmark.cli list tasks | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.startswith("mini/")
    assert done.stderr == ""
