"""`leakboard audit`: what can be read back from the gradients of a user's own model and text."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from benchmark.cli.options import Device, Jobs, Seed, folder
from benchmark.errors import UserError
from benchmark.suites import ObjectiveName

if TYPE_CHECKING:
    from benchmark.auditing.report import AttackFinding, Report

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
LEAST_SECONDS = 10.0


def duration(text: str) -> float:
    """`90`, `90s`, `10m` or `1h` as seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text))
    if match is None or match[2] not in UNITS:
        raise UserError(f"--time {text!r} is not a time; write it as 90s, 10m or 1h.")
    seconds = float(match[1]) * UNITS[match[2]]
    if seconds < LEAST_SECONDS:
        raise UserError(f"--time {text} is too short; give at least {LEAST_SECONDS:g} seconds.")
    return seconds


def objective_name(text: str) -> str:
    """One of the objectives that a model can be trained for."""
    if text not in get_args(ObjectiveName):
        raise UserError(f"--objective {text!r} is none of {', '.join(get_args(ObjectiveName))}.")
    return text


def audit(
    model: Annotated[
        str, typer.Option(help="Model folder (safetensors), or hub:OWNER/NAME@COMMIT.")
    ],
    text: Annotated[Path, typer.Option(help="JSON Lines, or one text a line.", parser=folder)],
    objective: Annotated[
        str, typer.Option(help="causal-lm, classification or translation.", parser=objective_name)
    ],
    batch: Annotated[int, typer.Option(min=1, help="Texts behind one update.")] = 1,
    attack: Annotated[
        list[str] | None, typer.Option(help="Attack to try instead of all; may be repeated.")
    ] = None,
    defense: Annotated[
        list[str] | None, typer.Option(help="Defense to try instead of four; may be repeated.")
    ] = None,
    local_steps: Annotated[int, typer.Option(min=1, help="Local steps of a client.")] = 1,
    learning_rate: Annotated[float, typer.Option(min=1e-12, help="Of local steps.")] = 0.01,
    time_: Annotated[
        float, typer.Option("--time", help="Time to spend: 90s, 10m, 1h.", parser=duration)
    ] = cast(float, "10m"),
    sentences: Annotated[int, typer.Option(min=1, help="Texts that are attacked at most.")] = 10,
    utility: Annotated[
        bool, typer.Option("--utility", help="Train with each defense, for its cost in quality.")
    ] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Mask all text in the report.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder of report.html and report.json.", parser=folder)
    ] = Path("audit"),
    jobs: Jobs = 0,
    device: Device = "auto",
    seed: Seed = 0,
    memory_limit: Annotated[
        float, typer.Option(min=0, help="GiB a worker may take; 0: its share.")
    ] = 0.0,
) -> None:
    """Measure what can be read back from gradients of your own model on your own text.

    The text stays on this machine and goes into the report only. The report is written as soon as
    there is a first verdict, and grows until the time is up.
    """
    from benchmark.auditing.door import audit as conduct
    from benchmark.auditing.request import AuditRequest

    request = AuditRequest(
        objective=cast(ObjectiveName, objective),
        batch_size=batch,
        attacks=None if attack is None else tuple(attack),
        defenses=None if defense is None else tuple(defense),
        local_steps=local_steps,
        learning_rate=learning_rate,
        seconds=time_,
        utility=utility,
        redact=redact,
        sentences=sentences,
        seed=seed,
        device=device,
        jobs=jobs,
        memory_limit_gb=memory_limit,
    )
    _check_out(out)
    display = _Display(out)
    with _ended_in_order():
        report = conduct(model, None, text, request, changed=display.changed)
    display.end(report)


def _check_out(out: Path) -> None:
    """Refuse a place for the report before any time is spent."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give --out a folder for the report.")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Whoever ends the command leaves no private text behind in the cache."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        print("Interrupted; nothing is left of the text but what was reported.", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


class _Display:
    """Lines for a person who waits, and the report on disk as it grows."""

    def __init__(self, out: Path) -> None:
        self.out, self.started, self.shown = out, time.monotonic(), 0
        self.verdict: list[str] = []

    def changed(self, report: Report) -> None:
        """An attack has ended."""
        for attack in report.attacks[self.shown :]:
            print(f"[{self._clock()}] {_line(attack)}", flush=True)
        first = not self.shown and bool(report.undefended.sentences)
        self.shown = len(report.attacks)
        if report.undefended.sentences:
            self._save(report)
        if first:
            print(f"[{self._clock()}] First verdict: {' '.join(report.verdict)}", flush=True)

    def end(self, report: Report) -> None:
        """The last word."""
        from benchmark.cli import text

        self._save(report)
        lines = [*report.verdict, report.caveat]
        if report.not_tried:
            lines.append(f"{len(report.not_tried)} attacks were not tried; the report says which.")
        text.show(["", *(each for line in lines for each in text.wrapped(line, ""))])
        page = (self.out / "report.html").resolve()
        print(f"The report is at {page.as_uri()}")

    def _save(self, report: Report) -> None:
        report.save(self.out / "report.json")
        report.save(self.out / "report.html")

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self.started)
        return f"{seconds // 60}:{seconds % 60:02d}"


def _line(attack: AttackFinding) -> str:
    """One attack under one condition in one line."""
    from benchmark.cli.text import printable

    where = f"batch of {attack.batch_size} · {attack.defense} · {attack.attack}"
    if attack.status != "ok":
        return printable(f"{where}: {attack.status}: {attack.reason}")
    if attack.rouge_l is not None:
        found = f"{attack.exact} of {attack.sentences} exact, ROUGE-L {attack.rouge_l:.2f}"
    elif attack.type_f1 is not None:
        found = f"F1 of token types {attack.type_f1:.2f}"
    else:
        found = "answered"
    return f"{where}: {found}"
