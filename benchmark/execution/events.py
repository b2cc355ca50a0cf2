"""What a worker may emit, line by line: one strict model for each kind of event.

A worker runs other people's code, so nothing is believed before it has been checked.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from benchmark.files import (
    Bytes,
    Count,
    FiniteFloat,
    Index,
    Loss,
    Megabytes,
    Note,
    Reason,
    Seconds,
    ShownLoss,
    Steps,
    Strict,
    TokenId,
)
from benchmark.plugins.description import Description
from benchmark.status import Status

MOST_SENTENCES = 100_000
MOST_TOKENS = 2_000_000
"""Of all sentences of a recovery."""


class Described(Strict):
    """A submission was loaded."""

    event: Literal["described"] = "described"
    meta: Description


class NotLoaded(Strict):
    """A submission could not be loaded."""

    event: Literal["broken"] = "broken"
    reason: Reason

    @property
    def status(self) -> Status:
        """What the job counts as."""
        return Status.ERROR


class Failed(Strict):
    """The job as a whole failed."""

    event: Literal["failed"] = "failed"
    status: Status
    reason: Reason


class Updated(Strict):
    """A client's update was written."""

    event: Literal["updated"] = "updated"
    index: Index
    update_kind: Literal["gradient", "difference"]
    local_steps: Annotated[int, Field(ge=1)]
    learning_rate: FiniteFloat
    noise_scale: FiniteFloat | None
    epsilon: FiniteFloat | None
    bytes_up: Annotated[int, Field(ge=0, le=10**15)]
    roles: dict[str, str]
    kept: Annotated[list[str], Field(max_length=100_000)] = []
    """Parameters that the client trains and keeps to itself."""
    seconds: Seconds | None = None
    """In which the client made it."""


class Trained(Strict):
    """A model was trained with a defense's updates, and its weights were written."""

    event: Literal["trained"] = "trained"
    rounds: Annotated[int, Field(ge=1)]
    validation: Annotated[list[Loss], Field(max_length=10_000)]
    step_seconds: Seconds
    bytes_up: Bytes
    epsilon: FiniteFloat | None
    peak_mb: Megabytes
    device_peak_mb: Megabytes | None


class Evaluated(Strict):
    """What a trained model does on each row of the test split."""

    event: Literal["evaluated"] = "evaluated"
    losses: list[Loss]
    tokens: list[Count]
    predicted: list[int]
    texts: list[str]


class ClientTrained(Strict):
    """A client of a federated task has trained for a round; its files were written."""

    event: Literal["client-trained"] = "client-trained"
    index: Index
    seconds: Seconds
    epsilon: FiniteFloat | None
    peak_mb: Megabytes
    device_peak_mb: Megabytes | None
    shares: bool
    """Whether the method sends anything at all."""
    keeps: bool
    """Whether the client has something to keep for the next round."""


class ClientFailed(Strict):
    """A client of a federated task could not do its part."""

    event: Literal["client-failed"] = "client-failed"
    index: Index
    status: Status
    reason: Reason


class Personalized(Strict):
    """A client of a federated task has its own model, and where it differs was written."""

    event: Literal["personalized"] = "personalized"
    index: Index
    differs: bool


class ClientTested(Strict):
    """What a client's model answers to each test row."""

    event: Literal["client-tested"] = "client-tested"
    index: Index
    predicted: Annotated[list[Count], Field(max_length=1_000_000)]


class Prepared(Strict):
    """An attack is ready."""

    event: Literal["prepared"] = "prepared"
    seconds: Seconds


class Progress(Strict):
    """How far a recovery or a training is."""

    event: Literal["progress"] = "progress"
    index: int
    step: Steps
    steps: Steps
    loss: ShownLoss
    accuracy: ShownLoss = None
    """Federated tasks: on validation rows, after so many rounds."""
    seconds_left: ShownLoss = None


class Recovered(Strict):
    """An attack's answer to one snapshot."""

    event: Literal["recovered"] = "recovered"
    index: Index
    status: Status
    reason: Reason = ""
    seconds: Seconds
    joint: bool = False
    sentences: Annotated[list[list[TokenId]], Field(max_length=MOST_SENTENCES)] = []
    token_types: Annotated[list[TokenId], Field(max_length=MOST_TOKENS)] | None = None
    note: Note = ""
    stopped_by_clock: bool = False

    @field_validator("sentences")
    @classmethod
    def _bounded(cls, sentences: list[list[int]]) -> list[list[int]]:
        if sum(map(len, sentences)) > MOST_TOKENS:
            raise ValueError(f"a recovery has more than {MOST_TOKENS:,} tokens")
        return sentences


class Done(Strict):
    """An attack has answered everything."""

    event: Literal["done"] = "done"
    peak_mb: Megabytes
    device_peak_mb: Megabytes | None


Notice = Literal["exception", "device", "network", "process", "read", "write"]


class Noticed(Strict):
    """Something that a submission did under observation."""

    event: Literal["noticed"] = "noticed"
    notice: Notice
    file: Annotated[str, Field(max_length=4096)] = ""
    line: Annotated[int, Field(ge=0, le=10**7)] = 0
    """Where in the submission's own code; 0 where no line of it took part."""
    what: Reason


Event = (
    Described
    | NotLoaded
    | Failed
    | Updated
    | Trained
    | Evaluated
    | ClientTrained
    | ClientFailed
    | Personalized
    | ClientTested
    | Prepared
    | Progress
    | Recovered
    | Done
    | Noticed
)
LINE: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def parse_event(text: str) -> Event:
    """A worker's line, checked; one that breaks the protocol is a failure of the job."""
    try:
        clean = json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
        return LINE.validate_json(clean, strict=True)
    except ValidationError as error:
        return protocol_failure(error)
    except (ValueError, RecursionError):
        return _breach("not JSON")


def protocol_failure(error: ValidationError) -> Failed:
    """The failure of a job that wanted to emit what no event may hold."""
    return _breach(str(error.errors()[0]["msg"]))


def _breach(why: str) -> Failed:
    reason = f"the worker said something that breaks the protocol: {why}"
    return Failed(status=Status.INVALID, reason=reason)


def encodable(text: str) -> str:
    """Text of a submission's own without the half characters that JSON cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
