"""Damaged files of every kind and odd command lines: one sentence at most, never a traceback.

`make soak` draws 1,000 files and 500 command lines; the seed of each is part of the message.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmark.cli.app import main
from benchmark.errors import UserError, printable
from tests.conftest import ROOT
from tests.faults.mutations import command_line, mutated_file
from tests.faults.readers import kinds

FILES = int(os.environ.get("LEAKBOARD_FUZZ_FILES", "120"))
LINES = int(os.environ.get("LEAKBOARD_FUZZ_LINES", "40"))
FIRST = int(os.environ.get("LEAKBOARD_SEED", "0"))


def test_damaged_files_are_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    found = kinds(tmp_path)
    refused = set()
    for kind in found:
        kind.read()  # sound, all of them
    for seed in range(FIRST, FIRST + FILES):
        kind = found[seed % len(found)]
        sound = kind.path.read_bytes()
        kind.path.write_bytes(mutated_file(sound, seed))
        said = ""
        try:
            kind.read()
        except UserError as error:
            said = printable(str(error))  # as `main` does
            refused.add(kind.name)
        except Exception as error:
            raise AssertionError(f"seed {seed}, {kind.name}: {error!r}") from error
        finally:
            kind.path.write_bytes(sound)
        assert len(said) < 2000, f"seed {seed}, {kind.name}"
    assert {
        "tensors",
        "manifest",
        "truth",
        "record to merge",
        "config.json",
        "package",
        "text",
    } <= refused


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LINES))
def test_odd_command_lines_are_answered(
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKBOARD_SUBMISSIONS", "")
    words = command_line(seed, str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["leakboard", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capfd.readouterr()
    assert ended.value.code in (0, 1, 2), f"seed {seed}: {words}"
    assert "Traceback" not in printed.err
    assert "\x1b" not in printed.err + printed.out, f"seed {seed}: {words}"
