"""What a worker may say, line by line. A worker runs other people's code, so nothing is believed
before it has been checked."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from benchmark.records import FiniteFloat, Parameters, Seconds, Status, Strict

Name = Annotated[str, Field(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*$", max_length=80)]


class Meta(Strict):
    """What a submission says of itself."""

    name: Name
    summary: str
    paper: str
    allow_tf32: bool
    parameters: dict[str, dict[str, Any]]
    variants: dict[Name, Parameters]
    observes: list[str] = []
    needs: list[str] = []
    objectives: list[str] = []
    overrides: list[str] = []


class Described(Strict):
    """A submission was loaded."""

    event: Literal["described"]
    meta: Meta


class Broken(Strict):
    """A submission could not be loaded."""

    event: Literal["broken"]
    reason: str


class Failed(Strict):
    """The job as a whole failed."""

    event: Literal["failed"]
    status: Status
    reason: str


class Updated(Strict):
    """A client's update was written."""

    event: Literal["updated"]
    index: int
    update_kind: Literal["gradient", "difference"]
    local_steps: Annotated[int, Field(ge=1)]
    learning_rate: FiniteFloat
    noise_scale: FiniteFloat | None
    epsilon: FiniteFloat | None
    bytes_up: Annotated[int, Field(ge=0)]
    roles: dict[str, str]


class Trained(Strict):
    """A model was trained with a defense's updates, and its weights were written."""

    event: Literal["trained"]
    rounds: Annotated[int, Field(ge=1)]
    validation: list[FiniteFloat]
    step_seconds: Seconds
    bytes_up: FiniteFloat
    epsilon: FiniteFloat | None
    peak_mb: FiniteFloat
    device_peak_mb: FiniteFloat | None


class Evaluated(Strict):
    """What a trained model does on each row of the test split."""

    event: Literal["evaluated"]
    losses: list[FiniteFloat]
    tokens: list[Annotated[int, Field(ge=0)]]
    predicted: list[int]
    texts: list[str]


class Prepared(Strict):
    """An attack is ready."""

    event: Literal["prepared"]
    seconds: Seconds


class Progress(Strict):
    """How far a recovery is."""

    event: Literal["progress"]
    index: int
    step: int
    steps: int
    loss: float


class Recovered(Strict):
    """An attack's answer to one snapshot."""

    event: Literal["recovered"]
    index: int
    status: Status
    reason: str = ""
    seconds: Seconds
    joint: bool = False
    sentences: list[list[Annotated[int, Field(ge=0)]]] = []
    token_types: list[Annotated[int, Field(ge=0)]] | None = None
    note: str = ""


class Done(Strict):
    """An attack has answered everything."""

    event: Literal["done"]
    peak_mb: FiniteFloat
    device_peak_mb: FiniteFloat | None


LINE: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Described
        | Broken
        | Failed
        | Updated
        | Trained
        | Evaluated
        | Prepared
        | Progress
        | Recovered
        | Done,
        Field(discriminator="event"),
    ]
)


def hear(text: str) -> dict[str, Any]:
    """A worker's line as checked data; one that breaks the protocol is a failure of the job."""
    try:
        clean = json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
        checked: dict[str, Any] = LINE.validate_json(clean, strict=True).model_dump(mode="json")
        return checked
    except (ValueError, ValidationError, RecursionError) as error:
        why = str(error.errors()[0]["msg"]) if isinstance(error, ValidationError) else "not JSON"
        reason = f"the worker said something that breaks the protocol: {why}"
        return {"event": "failed", "status": "invalid", "reason": reason}
