"""Jobs and events cross the process border unchanged, and nothing else crosses it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmark.execution import events
from benchmark.execution.events import Event, Failed, Progress, Recovered, parse_event
from benchmark.execution.jobs import (
    Assignment,
    ClientSettings,
    DescribeJob,
    EvaluateJob,
    PrivateBatchFile,
    RecoverJob,
    SnapshotFacts,
    TaskFacts,
    TrainJob,
    UpdateJob,
    Work,
)
from benchmark.plugins.description import Description, SubmissionCall
from benchmark.plugins.registry import all_tasks
from benchmark.spec import Knowledge, Parameter
from benchmark.status import Status

CLIENT = ClientSettings.of(all_tasks()["mini/cola"])
CALL = SubmissionCall(reference="x.py", parameters={"on": True, "steps": 1, "rate": 1.0, "s": "1"})
FACTS = TaskFacts(
    task="mini/cola", objective="classification", precision="float64", batch_size=2,
    batch_tokens=None, max_tokens=9, grants=frozenset({Knowledge.LABELS}), prior="file",
    prior_shares_ids=True, seed=2**62 + 1,
)  # fmt: skip
SNAPSHOT = SnapshotFacts(
    index=3, file="snapshots/003", update_kind="difference", local_steps=4, learning_rate=0.1,
    batch_size=2, seed=2**62 + 3, noise_scale=1e-9, labels=(0, 1), lengths=(4, 5),
    frequencies={7: 2, 11: 1}, type_count=2,
)  # fmt: skip
WORKS: tuple[Work, ...] = (
    DescribeJob(submission="x.py", role="attack"),
    UpdateJob(
        client=CLIENT, defense=(CALL, CALL), seed=2**255, momentum=0.9,
        batches=(PrivateBatchFile(index=0, file="a", warmup=("b",), seed=5, out="c"),),
    ),
    TrainJob(client=CLIENT, defense=(CALL,), seed=1),
    EvaluateJob(client=CLIENT, max_tokens=64),
    RecoverJob(attack=CALL, task=FACTS, snapshots=(SNAPSHOT,)),
)  # fmt: skip
EVENTS: tuple[Event, ...] = (
    events.Described(
        meta=Description(
            name="x", summary="ü", paper="", allow_tf32=False, variants={"x_y": {"a": 1}},
            parameters={"a": Parameter(0.5, "half", 0.0, choices=(0.5, 1.0))}, observes=("output",),
            needs=(), objectives=(), baseline=True, overrides=(),
        )
    ),
    events.NotLoaded(reason="no"),
    Failed(status=Status.OUT_OF_MEMORY, reason="full"),
    events.Updated(index=1, update_kind="gradient", local_steps=1, learning_rate=1.0,
                   noise_scale=None, epsilon=3.5, bytes_up=9, roles={"output": "w"}),
    events.Trained(rounds=3, validation=[1.5], step_seconds=0.1, bytes_up=2.5, epsilon=None,
                   peak_mb=1.0, device_peak_mb=None),
    events.Evaluated(losses=[0.1], tokens=[3], predicted=[1], texts=["a"]),
    events.Prepared(seconds=0.5),
    Progress(index=0, step=1, steps=2, loss=0.25),
    Recovered(index=0, status=Status.OK, seconds=1.0, sentences=[[1, 2]], token_types=[1]),
    events.Done(peak_mb=1.0, device_peak_mb=None),
)  # fmt: skip


def assigned(work: Work) -> Assignment:
    return Assignment(
        work=work, inbox=Path("/in"), outbox=Path("/out"), device="cpu", threads=1,
        time_limit=60.0, memory_limit_mb=1e9,
    )  # fmt: skip


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.kind)
def test_a_job_arrives_as_it_was_sent(work: Work) -> None:
    sent = assigned(work)
    arrived = Assignment.model_validate_json(sent.model_dump_json(), strict=True)
    assert arrived == sent
    assert type(arrived.work) is type(work)


def test_types_of_parameters_survive() -> None:
    sent = assigned(TrainJob(client=CLIENT, defense=(CALL,), seed=1))
    arrived = Assignment.model_validate_json(sent.model_dump_json(), strict=True).work
    assert isinstance(arrived, TrainJob)
    kinds = [type(value) for value in arrived.defense[0].parameters.values()]
    assert kinds == [bool, int, float, str]


@pytest.mark.parametrize(
    ("key", "value"), [("seed", "1"), ("truth", "the private text"), ("client", None)]
)
def test_a_job_that_is_not_to_the_letter_is_refused(key: str, value: object) -> None:
    body = json.loads(assigned(TrainJob(client=CLIENT, defense=(), seed=1)).model_dump_json())
    body["work"][key] = value
    with pytest.raises(ValidationError, match=key):
        Assignment.model_validate_json(json.dumps(body), strict=True)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_arrives_as_it_was_emitted(event: Event) -> None:
    assert parse_event(event.model_dump_json()) == event


def test_a_loss_that_diverged_is_still_progress() -> None:
    arrived = parse_event(Progress(index=0, step=1, steps=2, loss=math.nan).model_dump_json())
    assert isinstance(arrived, Progress)
    assert arrived.loss is None


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        '{"event": "exit"}',
        '{"event": "prepared", "seconds": "1"}',
        '{"event": "prepared", "seconds": NaN}',
        '{"event": "recovered", "index": 0, "status": "ok", "seconds": 1, "sentences": [[-1]]}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:40],
)
def test_a_line_that_breaks_the_protocol_fails_its_job(line: str) -> None:
    failed = parse_event(line)
    assert isinstance(failed, Failed)
    assert failed.status is Status.INVALID
    assert "breaks the protocol" in failed.reason
