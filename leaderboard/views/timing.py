"""Timing tests as a table, read from the JSON file that pytest-benchmark writes."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmark.errors import UserError
from benchmark.files import FiniteFloat


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


class Timing(_Loose):
    """A whole file."""

    benchmarks: list[TimingTest]
    machine_info: TimedMachine = TimedMachine()
    commit_info: TimedCommit = TimedCommit()
    datetime: str = ""


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
