"""What `submit` packs is taken over; a crafted package is refused, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark.exchange.package import MOST_BYTES
from tests.benchmark.exchange.conftest import PLAN, Published
from tests.in_process import leakboard

Package = dict[str, Any]


def test_records_arrive_as_they_were_packed(published: Published, tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = leakboard("import", published.package, "--results", results)
    assert done.code == 0, done.err
    assert f"{len(PLAN)} records of own_rows" in done.out
    sent = {p.relative_to(published.results): p for p in published.results.rglob("*.json")}
    taken = {p.relative_to(results): p for p in results.rglob("*.json")}
    assert len(taken) == len(PLAN)
    assert taken.keys() == sent.keys()
    assert all(taken[name].read_bytes() == sent[name].read_bytes() for name in taken)
    assert leakboard("import", published.package, "--results", results).code == 0  # the same again


def test_what_travels_is_named(published: Published) -> None:
    """Records, digest of the source and environment, without code and without paths."""
    text = published.package.read_text()
    package = json.loads(text)
    assert (package["submission"], package["seed"], package["suite"]) == ("own_rows", 100, "mini")
    assert len(package["source_digest"]) == 64
    assert {"python", "processor", "packages", "sandbox"} <= package["environment"].keys()
    assert str(published.source.parent) not in text
    assert "def recover" not in text


def test_a_cluster_is_told_what_to_run(published: Published, tmp_path: Path) -> None:
    done = leakboard("submit", "own_rows", "--plan-only", "--results", tmp_path / "r")
    commands = [line for line in done.out.splitlines() if "leakboard run" in line]
    assert len(commands) == 2  # by defense
    assert "--seed 100" in commands[0]
    assert "--task cola,sst2" in commands[0]
    assert not (tmp_path / "r").exists()


def test_tuning_seeds_are_refused(published: Published, tmp_path: Path) -> None:
    done = leakboard("submit", "own_rows", "--seed", 3, "--results", tmp_path / "r")
    assert done.code == 2
    assert "Seed 3 is for tuning" in done.err


def test_other_records_are_replaced_on_request_only(published: Published, tmp_path: Path) -> None:
    results = tmp_path / "results"
    leakboard("import", published.package, "--results", results)
    path = next(results.rglob("*.json"))
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"prepare_seconds": 7.0}))
    refused = leakboard("import", published.package, "--results", results)
    assert refused.code == 2
    assert "there is another record" in refused.err
    assert json.loads(path.read_text())["prepare_seconds"] == 7.0
    assert leakboard("import", published.package, "--results", results, "--force").code == 0
    assert json.loads(path.read_text()) == record


# ---------------------------------------------------------------------------------------- crafted


def first(package: Package) -> Package:
    record: Package = package["records"][0]
    return record


def in_first(**changes: object) -> Callable[[Package], None]:
    return lambda package: first(package).update(changes)


def in_answer(**changes: object) -> Callable[[Package], None]:
    return lambda package: first(package)["snapshots"][0].update(changes)


def in_provenance(**changes: object) -> Callable[[Package], None]:
    return lambda package: first(package)["provenance"].update(changes)


def in_package(**changes: object) -> Callable[[Package], None]:
    return lambda package: package.update(changes)


def twice(package: Package) -> None:
    package["records"].append(first(package))


def shortened(package: Package) -> None:
    package["records"].pop()


CRAFTED: dict[str, tuple[Callable[[Package], None], str]] = {
    "path traversal by task": (in_first(task="../../../etc/cron"), "is no cell of the official"),
    "path traversal by attack": (in_first(attack="../own_rows"), "../own_rows · 100 is no cell"),
    "path traversal by variant": (in_first(attack_variant="../x"), "none · ../x · 100 is no cell"),
    "path traversal by name": (in_package(submission="../own_rows"), "'../own_rows'"),
    "unknown task": (in_first(task="mini/poems"), "mini/poems · none · own_rows · 100 is no cell"),
    "unknown suite": (in_package(suite="giant"), "'giant'"),
    "unknown field": (in_first(shell="rm"), "Extra inputs are not permitted"),
    "huge seconds": (in_first(prepare_seconds=1e300), "less than or equal to 10000000"),
    "huge budget": (in_first(epsilon=1e300), "a number of 1e+300 is beyond what can be measured"),
    "huge integer": (in_first(seed=10**40), "is no cell of the official plan"),
    "huge token id": (in_answer(token_types=[10**9]), "token id outside the vocabulary"),
    "negative time": (in_answer(seconds=-1.0), "greater than or equal to 0"),
    "NaN": (in_answer(seconds=float("nan")), "finite number"),
    "infinity": (in_first(peak_mb=float("inf")), "finite number"),
    "forged source": (in_package(source_digest="0" * 64), "was made by other code of own_rows"),
    "forged attack": (in_provenance(attack_digest="0" * 64), "its attack had other code"),
    "forged defense": (in_provenance(defense_digest="0" * 64), "its defense had other code"),
    "forged snapshot": (in_answer(digest="0" * 64), "snapshot 0 is another one than here"),
    "forged version": (in_provenance(fingerprint="0" * 64), "another version of the task"),
    "forged text": (in_answer(sentences=[[5]], texts=["private"]), "not those of its token ids"),
    "forged knowledge": (in_first(told=["labels"]), "its told is"),
    "future": (in_provenance(created="2999-01-01T00:00:00Z"), "it was made in the future"),
    "control characters": (in_first(attack="\x1b[2J"), "a name holds control characters"),
    "long provenance": (in_provenance(processor="x" * 300), "words that are too long"),
    "no sandbox": (in_provenance(sandbox="none at all"), "there is no sandbox"),
    "tuning seed": (in_package(seed=3), "seed 3 is for tuning"),
    "a record twice": (twice, "is there more than once"),
    "a record missing": (shortened, "of the official plan is missing"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_package_is_refused(name: str, published: Published, tmp_path: Path) -> None:
    change, sentence = CRAFTED[name]
    package = json.loads(published.package.read_text())
    change(package)
    file = tmp_path / "in" / "crafted.json"
    file.parent.mkdir()
    file.write_text(json.dumps(package))
    before = set(tmp_path.rglob("*"))
    done = leakboard("import", file, "--results", tmp_path / "results")
    assert done.code == 2
    assert sentence in " ".join(done.err.split()), done.err
    assert done.err.splitlines()[-1].startswith("leakboard: ")
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "is not a valid package"),
        (b"\x00\xff", "is not a valid package"),
        (b"[" * 100_000, "is not a valid package"),
        (b'{"format": 2}', "is not a valid package"),
    ],
)
def test_what_is_no_package_is_refused(text: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(text)
    done = leakboard("import", tmp_path / "file", "--results", tmp_path / "results")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert sentence in done.err
    assert not (tmp_path / "results").exists()


def test_a_gigabyte_of_text_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stream:
        stream.truncate(2**30)  # a hole, which would be a gigabyte in memory
    done = leakboard("import", tmp_path / "file", "--results", tmp_path / "results")
    assert done.code == 2
    assert f"has 1024 MiB, more than the {MOST_BYTES >> 20} MiB" in done.err
    assert not (tmp_path / "results").exists()
