"""Timing tests as tables, read from the JSON files that pytest-benchmark writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmark.errors import UserError
from benchmark.files import FiniteFloat

MOST_RUNS = 8
"""Runs that the table of the history shows; the figure and the CSV have all."""


class _Loose(BaseModel):
    """Foreign JSON: only what is named is read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class TimingStatistics(_Loose):
    """Seconds of one benchmark."""

    min: FiniteFloat
    median: FiniteFloat
    mean: FiniteFloat
    stddev: FiniteFloat = 0.0
    rounds: int


class TimingTest(_Loose):
    """One benchmark."""

    name: str
    fullname: str = ""
    stats: TimingStatistics
    extra_info: dict[str, bool | int | float | str | None] = {}

    @property
    def key(self) -> str:
        """What names the benchmark across runs."""
        return self.fullname or self.name

    @property
    def title(self) -> str:
        """The name as words."""
        return self.name.removeprefix("test_").replace("_", " ")

    @property
    def ratio(self) -> float | None:
        """How many times as fast the fast way is, where two ways were timed in turn."""
        found = self.extra_info.get("ratio")
        return float(found) if isinstance(found, int | float) else None


class TimedMachine(_Loose):
    """What it ran on."""

    processor: str = ""
    machine: str = ""
    system: str = ""
    python_version: str = ""
    cpu: dict[str, object] = {}

    @property
    def processor_name(self) -> str:
        """The processor in its maker's words, if the file has them."""
        return str(self.cpu.get("brand_raw", "")) or self.processor or self.machine


class TimedCommit(_Loose):
    """The code that was timed."""

    id: str = ""
    dirty: bool = False

    @property
    def short(self) -> str:
        """As pages show it."""
        return f"{self.id[:10] or '–'}{' + changes' if self.dirty else ''}"


class Timing(_Loose):
    """One run: a whole file."""

    benchmarks: list[TimingTest]
    machine_info: TimedMachine = TimedMachine()
    commit_info: TimedCommit = TimedCommit()
    datetime: str = ""

    @property
    def day(self) -> str:
        """The day of the run."""
        return self.datetime[:10] or "an unknown day"


@dataclass(frozen=True)
class RatioHistory:
    """The ratios of one benchmark, run by run."""

    test: TimingTest
    """As it was timed last."""
    ratios: tuple[float | None, ...]
    """None in runs that did not time it."""


@dataclass(frozen=True)
class TimingHistory:
    """Runs in the order of their time."""

    runs: Sequence[Timing]

    @property
    def newest(self) -> Timing:
        """The last run."""
        return self.runs[-1]

    @property
    def shown(self) -> Sequence[Timing]:
        """The runs that the table has columns for."""
        return self.runs[-MOST_RUNS:]

    def ratios(self) -> tuple[RatioHistory, ...]:
        """Of every benchmark with a ratio in any of the shown runs."""
        by_run = [{test.key: test for test in run.benchmarks} for run in self.shown]
        last = {key: test for run in by_run for key, test in run.items()}
        made = (
            RatioHistory(test, tuple(r[key].ratio if key in r else None for r in by_run))
            for key, test in last.items()
        )
        return tuple(each for each in made if any(ratio is not None for ratio in each.ratios))


def load_timings(paths: Iterable[Path]) -> TimingHistory | None:
    """Runs from files of pytest-benchmark and from folders of them; the same run counts once.

    Raises:
        UserError: a file cannot be read, or holds something else; or a folder holds none.
    """
    runs = [load_timing(file) for path in paths for file in _files(path)]
    once = {run.model_dump_json(exclude={"datetime"}): run for run in runs}  # stored twice
    ordered = sorted(once.values(), key=lambda run: (run.datetime, run.commit_info.id))
    return TimingHistory(tuple(ordered)) if ordered else None


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(path.rglob("*.json"))
    if not found:
        raise UserError(f"{path} holds no JSON file of pytest-benchmark; `make timing` writes one.")
    yield from found


def load_timing(path: Path) -> Timing:
    """Read a file of pytest-benchmark.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    try:
        return Timing.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except ValidationError as error:
        raise UserError(
            f"{path} is not a JSON file of pytest-benchmark; `make timing` writes one "
            "to .benchmarks/timing.json."
        ) from error
