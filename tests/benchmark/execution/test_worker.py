"""Whatever a submission does, its cell becomes a record and the run goes on."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from benchmark.files import read_model
from benchmark.results.schema import Record, Score, Status
from benchmark.results.scoring import score_all
from tests.harness import FEW, RunCells


def only(records: list[Record]) -> Record:
    assert len(records) == 1
    return records[0]


@pytest.mark.parametrize(
    ("way", "status", "words"),
    [
        ("raise", Status.ERROR, "RuntimeError: on <script>purpose</script>"),
        ("exit", Status.ERROR, "exit code"),
        ("crash", Status.ERROR, "SIGSEGV"),
        ("type", Status.INVALID, "returned list instead of a Recovery"),
        ("nan", Status.INVALID, "whole numbers"),
        ("wrong", Status.INVALID, "whole numbers"),
        ("range", Status.INVALID, "outside the vocabulary"),
        ("huge", Status.INVALID, "outside the vocabulary"),
        ("kill", Status.ERROR, "killed by SIGKILL"),
        ("long-line", Status.INVALID, "returned more than 32 MiB for one snapshot"),
        ("wide-lines", Status.INVALID, "returned more than 64 MiB in all"),
        ("many-lines", Status.INVALID, "said more than 20,000 things"),
        ("hidden-memory", Status.ERROR, "Operation not permitted"),
    ],
)
def test_failures_become_records(run_cells: RunCells, way: str, status: Status, words: str) -> None:
    record = only(run_cells(f"naughty[way={way}]"))
    assert record.status is status, record.reason
    assert words in record.reason
    assert len(record.snapshots) == FEW
    assert all(result.status is status for result in record.snapshots)


@pytest.mark.parametrize("way", ["hang", "fork"])
def test_a_hang_is_ended_with_everything_it_started(run_cells: RunCells, way: str) -> None:
    before = {p.pid for p in psutil.process_iter() if "time.sleep(3600)" in _command(p)}
    record = only(run_cells(f"naughty[way={way}]", time_limit=4))
    assert record.status is Status.TIMEOUT
    assert "stopped after 4 s" in record.reason
    after = {p.pid for p in psutil.process_iter() if "time.sleep(3600)" in _command(p)}
    assert after <= before


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.parametrize("way", ["memory", "orphan", "shared-memory", "scratch"])
def test_too_much_memory_is_noticed_wherever_it_lies(run_cells: RunCells, way: str) -> None:
    """In the worker, in a process that has left it, in shared memory, in files of its own."""
    record = only(run_cells(f"naughty[way={way}]", memory_limit_mb=1500, time_limit=60))
    assert record.status is Status.OUT_OF_MEMORY, record.reason
    assert "of 1500 MiB" in record.reason


def test_what_a_submission_says_reaches_no_terminal_and_has_an_end(run_cells: RunCells) -> None:
    record = only(run_cells("naughty[way=escape]"))
    for reason in (record.reason, *(result.reason for result in record.snapshots)):
        assert reason.isprintable()
        assert "red" in reason
        assert len(reason) < 1100


def test_a_job_cannot_end_its_server(run_cells: RunCells) -> None:
    record = only(run_cells("naughty[way=kill-server]", time_limit=4))
    assert record.status in (Status.TIMEOUT, Status.ERROR)
    assert only(run_cells("random")).status is Status.OK


def test_floods_of_output_change_nothing(run_cells: RunCells) -> None:
    record = only(run_cells("naughty[way=flood]"))
    assert record.status is Status.OK, record.reason
    assert all(result.sentences == [[5]] for result in record.snapshots)


def test_a_forged_end_fails_its_own_cell_only(run_cells: RunCells) -> None:
    record = only(run_cells("naughty[way=forge]"))
    assert record.status is Status.INVALID
    assert "breaks the protocol" in record.reason
    assert only(run_cells("random")).status is Status.OK


def test_lies_and_half_characters_fail_their_own_cell_only(run_cells: RunCells) -> None:
    lie = only(run_cells("naughty[way=lie]"))
    assert lie.status is Status.INVALID
    assert "breaks the protocol" in lie.reason
    odd = only(run_cells("naughty[way=surrogate]"))
    assert odd.status is Status.ERROR
    assert "half a character: ?" in odd.reason


def test_no_job_finds_what_another_left(run_cells: RunCells, tmp_path: Path) -> None:
    """Neither what a defense saw, nor what an attack learned on other snapshots."""
    for number in ("first", "second"):
        record = only(run_cells("reader", defense="stash", results=tmp_path / number))
        assert record.status is Status.OK, record.reason
        assert [result.note for result in record.snapshots] == [""] * FEW


def test_one_failed_snapshot_is_kept_and_counted(run_cells: RunCells) -> None:
    record = only(run_cells("naughty[way=second]"))
    assert record.status is Status.ERROR
    assert record.reason == "1 of 4 snapshots failed: ValueError: only the second"
    assert [r.status for r in record.snapshots].count(Status.OK) == FEW - 1


def test_a_joint_run_is_recorded_as_such_and_undone_by_one_bad_snapshot(
    run_cells: RunCells,
) -> None:
    record = only(run_cells("together"))
    assert all(r.joint and r.sentences == [[6]] for r in record.snapshots)
    assert len({r.seconds for r in record.snapshots}) == 1
    record = only(run_cells("together[unreadable=2]"))
    assert record.reason == "1 of 4 snapshots failed: ValueError: unreadable"
    good = [r for r in record.snapshots if r.status is Status.OK]
    assert len(good) == FEW - 1
    assert not any(r.joint for r in good)
    assert all(r.sentences == [[5]] for r in good)


def test_what_is_left_of_the_time_counts_from_the_start(run_cells: RunCells) -> None:
    """Preparing takes of the limit, so an attack that heeds its budget is not ended by force."""
    record = only(run_cells("heedful", time_limit=6.0))
    assert record.status is Status.OK, record.reason
    assert all(float(r.note) < 6.0 * 0.95 - 1.0 - 2.0 for r in record.snapshots)


def test_timing_and_memory_are_real_numbers(run_cells: RunCells) -> None:
    record = only(run_cells("prior_only"))
    assert record.status is Status.OK, record.reason
    assert all(r.seconds is not None and r.seconds > 0 for r in record.snapshots)
    assert record.prepare_seconds is not None
    assert record.peak_mb is not None
    assert record.peak_mb > 50
    assert record.provenance.threads == 1
    assert record.provenance.sandbox in ("bubblewrap", "landlock", "audit-hook")


def test_the_same_seed_gives_the_same_recoveries(run_cells: RunCells, tmp_path: Path) -> None:
    first = only(run_cells("prior_only", results=tmp_path / "1"))
    second = only(run_cells("prior_only", results=tmp_path / "2"))
    assert [r.sentences for r in first.snapshots] == [r.sentences for r in second.snapshots]
    assert len({tuple(map(tuple, r.sentences)) for r in first.snapshots}) > 1


def test_what_a_defense_does_not_share_is_unsupported(run_cells: RunCells) -> None:
    record = only(run_cells("manner", defense="frozen"))
    assert record.status is Status.UNSUPPORTED
    assert record.reason == "manner reads the word-embedding gradient, which frozen does not share"
    assert only(run_cells("random", defense="frozen")).status is Status.OK


def test_a_refused_snapshot_costs_no_other_and_excuses_nothing(
    run_cells: RunCells, tmp_path: Path
) -> None:
    partly = only(run_cells("naughty[way=refuse-first]", results=tmp_path))
    assert partly.status is Status.OK
    assert partly.reason == f"1 of {FEW} snapshots refused, each counts as 0: too long for it"
    assert [s.status for s in partly.snapshots] == [Status.UNSUPPORTED] + [Status.OK] * (FEW - 1)
    wholly = only(run_cells("naughty[way=refuse]", results=tmp_path))
    assert wholly.status is Status.UNSUPPORTED
    assert not wholly.ruled_out
    assert all(item.outcome == "scored" for item in score_all(tmp_path))
    scores = {path.name: read_model(path, Score) for path in tmp_path.rglob("*.score.json")}
    assert len(scores) == 2
    for score in scores.values():
        assert score.metrics["rougeL"].n == FEW
        assert score.metrics["rougeL"].values[0] == 0.0


def test_a_defense_that_sends_another_type_fails_its_cells(run_cells: RunCells) -> None:
    record = only(run_cells("random", defense="half"))
    assert record.status is Status.INVALID
    assert "does not have the parameter's shape and type" in record.reason


def test_a_defense_that_sends_nan_fails_its_cells(run_cells: RunCells) -> None:
    record = only(run_cells("random", defense="poison"))
    assert record.status is Status.INVALID
    assert "the defense failed" in record.reason
    assert "NaN or infinite" in record.reason
