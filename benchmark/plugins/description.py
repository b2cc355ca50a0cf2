"""What crosses a process border about a submission: its description, and how to make it."""

from __future__ import annotations

from benchmark.files import Parameters, Strict
from benchmark.spec import Parameter


class Description(Strict):
    """What a submission says of itself; `limits.py` says how much it may."""

    name: str
    summary: str
    paper: str
    allow_tf32: bool
    parameters: dict[str, Parameter]
    variants: dict[str, Parameters]
    observes: tuple[str, ...]
    """Roles whose gradient an attack reads."""
    needs: tuple[str, ...]
    """Knowledge without which an attack cannot run."""
    uses: tuple[str, ...] = ()
    """Knowledge that an attack uses where it is granted."""
    objectives: tuple[str, ...]
    """Objectives that an attack is defined for."""
    baseline: bool
    """An attack that guesses without reading the update."""
    overrides: tuple[str, ...]
    """Steps that a defense does in a way of its own."""


class SubmissionCall(Strict):
    """A submission as a worker makes it: where its code lies, and its parameters."""

    reference: str
    """A file, a folder or `module:Class[@folder]`."""
    parameters: Parameters = {}
    """Those that differ from the defaults."""
