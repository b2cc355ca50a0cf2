"""Runs one job in its own process: describe a submission, make updates, train, or recover text.

Everything a job may know arrives in the job itself and in the files it names; everything it finds
out leaves as one JSON line at a time.
"""

from __future__ import annotations

import json
import operator
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from benchmark import plugins, registry, training
from benchmark.clients import make_client, one_update, take_steps
from benchmark.clock import Stopwatch, device_peak_mb, process_peak_mb
from benchmark.spec import (
    Attack,
    Batch,
    Knowledge,
    Observation,
    Public,
    Recovery,
    Unsupported,
    Update,
)

if TYPE_CHECKING:
    import torch

Say = Callable[..., None]
REPORT_SECONDS = 0.5


def warm_up() -> None:
    """Do, before any fork, what most jobs would begin with.

    On one thread: a pool of OpenMP threads does not survive the fork.
    """
    import torch

    torch.set_num_threads(1)
    registry.model_room().warm_up()


def main(job: dict[str, Any], output: TextIO) -> int:
    """Do the job; 0 unless the process itself is in trouble."""

    def say(**event: Any) -> None:
        output.write(json.dumps(event) + "\n")
        output.flush()

    try:
        WORK[job["kind"]](job, say)
    except plugins.BrokenPlugin as error:
        say(event="broken", reason=str(error))
    except Exception as error:
        traceback.print_exc()
        say(event="failed", status=_status(error), reason=_reason(error))
    return 0


def describe(job: dict[str, Any], say: Say) -> None:
    """Metadata of a submission, so that the harness itself never imports one."""
    say(event="described", meta=plugins.describe(plugins.load(job["submission"], job["role"])))


def make_updates(job: dict[str, Any], say: Say) -> None:
    """Run a defense's client on each private batch and store what leaves the client."""
    from safetensors.torch import load_file, save_file

    room, device = registry.model_room(), _device(job)
    defense = plugins.make_defense(job["defense"])
    inbox, outbox = Path(job["inbox"]), Path(job["outbox"])
    model, _ = room.open_model(inbox / "model", job["objective"], job["precision"], device)
    model.train(job["mode"] == "train")

    def read(file: str) -> Batch:
        return room.batch({k: v.to(device) for k, v in load_file(inbox / file).items()})

    for item in job["batches"]:
        client = make_client(job, model, device)
        with _weights_kept(model, bool(item["warmup"])):
            take_steps(client, [read(file) for file in item["warmup"]], job["momentum"])
            update = one_update(defense, client, read(item["file"]), item["seed"])
        tensors = {n: t.detach().cpu().contiguous() for n, t in update.tensors.items()}
        save_file(tensors, outbox / item["out"])
        say(
            event="updated",
            index=item["index"],
            update_kind=update.kind,
            local_steps=update.local_steps,
            learning_rate=update.learning_rate,
            noise_scale=update.noise_scale,
            epsilon=update.epsilon,
            bytes_up=update.bytes_up,
            roles={str(role): name for role, name in client.roles.names.items()},
        )


@contextmanager
def _weights_kept(model: torch.nn.Module, changing: bool) -> Iterator[None]:
    """The model is as it was before once a client has trained it."""
    before = {n: p.detach().clone() for n, p in model.named_parameters()} if changing else {}
    yield
    for name, parameter in model.named_parameters():
        if changing:
            parameter.data.copy_(before[name])


def train(job: dict[str, Any], say: Say) -> None:
    """Train the model with a defense's updates."""
    training.train(job, _device(job), say)


def evaluate(job: dict[str, Any], say: Say) -> None:
    """Test a trained model; no submission is loaded here."""
    training.evaluate(job, _device(job), say)


def recover_all(job: dict[str, Any], say: Say) -> None:
    """Prepare the attack once, then recover the snapshots, jointly where the attack can."""
    import torch

    left = Countdown(job["time_limit"])
    device = _device(job)
    torch.manual_seed(job["seed"])
    attack = plugins.load(job["submission"], "attack")(**job["parameters"])
    assert isinstance(attack, Attack)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = attack.allow_tf32
    public = _public(job, device)
    with Stopwatch(device) as watch:
        attack.prepare(public)
    say(event="prepared", seconds=watch.seconds)
    answers = None
    if type(attack).recover_many is not Attack.recover_many:
        answers = _recover_jointly(attack, public, job, say, left)
    for number, item in enumerate(job["snapshots"]):
        observation = _observation(public, item, job, say, left)
        answer = answers[number] if answers else _recover(attack, observation)
        say(event="recovered", index=item["index"], **answer)
    say(event="done", peak_mb=process_peak_mb(), device_peak_mb=device_peak_mb(device))


class Countdown:
    """Seconds until an attack should hand over what it has, a little before it is ended."""

    def __init__(self, limit: float) -> None:
        self.end = time.monotonic() + limit * 0.95 - 1.0

    def __call__(self) -> float:
        return self.end - time.monotonic()


def _recover_jointly(
    attack: Attack, public: Public, job: dict[str, Any], say: Say, left: Countdown
) -> list[dict[str, Any]] | None:
    """All snapshots in one call, each charged an equal share; None where that call fails."""
    observations = [_observation(public, item, job, say, left) for item in job["snapshots"]]
    watch = Stopwatch(public.device)
    try:
        with watch:
            recoveries = list(attack.recover_many(observations))
        if len(recoveries) != len(observations):
            raise ValueError(f"recover_many gave {len(recoveries)} of {len(observations)} answers")
    except Exception:
        traceback.print_exc()  # one by one, the snapshot that is to blame fails alone
        return None
    share = watch.seconds / len(recoveries)
    return [{"seconds": share, "joint": True, **_answer(r, public)} for r in recoveries]


def _public(job: dict[str, Any], device: torch.device) -> Public:
    """What the whole federation knows, read from the files that the job names."""
    room, inbox = registry.model_room(), Path(job["inbox"])
    model, tokenizer = room.open_model(inbox / "model", job["objective"], job["precision"], device)
    given = inbox / "public.json"
    known = json.loads(given.read_text(encoding="utf-8")) if given.exists() else {}
    prior = None
    if job["prior"] == "self":
        prior = room.self_prior(model, tokenizer)
    elif job["prior"]:
        prior = room.open_prior(inbox / "prior", tokenizer, device, job["prior_shares_ids"])
    return Public(
        task=job["task"],
        objective=room.objective(job["objective"]),
        model=model,
        tokenizer=tokenizer,
        roles=room.roles(model),
        batch_size=job["batch_size"],
        batch_tokens=job["batch_tokens"],
        max_tokens=job["max_tokens"],
        grants=frozenset(Knowledge(name) for name in job["grants"]),
        text=tuple(known.get("text", ())),
        sources=tuple(known.get("sources", ())),
        prior=prior,
        device=device,
        seed=job["seed"],
    )


def _observation(
    public: Public, item: dict[str, Any], job: dict[str, Any], say: Say, left: Countdown
) -> Observation:
    """One snapshot as the attack sees it."""
    from safetensors.torch import load_file

    tensors = load_file(Path(job["inbox"]) / item["file"])
    update = Update(
        tensors={name: tensor.to(public.device) for name, tensor in tensors.items()},
        kind=item["update_kind"],
        local_steps=item["local_steps"],
        learning_rate=item["learning_rate"],
        noise_scale=item["noise_scale"],
    )
    return Observation(
        public=public,
        update=update,
        batch_size=item["batch_size"],
        seed=item["seed"],
        labels=_tuple(item["labels"]),
        lengths=_tuple(item["lengths"]),
        frequencies=_counts(item["frequencies"]),
        type_count=item["type_count"],
        report=_reporter(say, item["index"]),
        seconds_left=left,
    )


def _reporter(say: Say, index: int) -> Callable[[int, int, float], None]:
    """Pass on how far a recovery is, a few times a second at most."""
    last = 0.0

    def report(step: int, steps: int, loss: float) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_SECONDS:
            last = time.monotonic()
            say(event="progress", index=index, step=int(step), steps=int(steps), loss=float(loss))

    return report


def _recover(attack: Attack, observation: Observation) -> dict[str, Any]:
    """One timed recovery; an exception here fails this snapshot, not the cell."""
    import torch

    torch.manual_seed(observation.seed)
    watch = Stopwatch(observation.public.device)
    try:
        with watch:
            recovery = attack.recover(observation)
    except Exception as error:
        traceback.print_exc()
        return {"status": _status(error), "reason": _reason(error), "seconds": watch.seconds}
    return {"seconds": watch.seconds, **_answer(recovery, observation.public)}


def _answer(recovery: Recovery, public: Public) -> dict[str, Any]:
    """A recovery as plain data, or what is wrong with it."""
    if not isinstance(recovery, Recovery):
        kind = type(recovery).__name__
        return {"status": "invalid", "reason": f"recover returned {kind} instead of a Recovery"}
    try:
        sentences = [_ids(sentence) for sentence in recovery.sentences]
        types = None if recovery.token_types is None else sorted(set(_ids(recovery.token_types)))
    except TypeError as error:
        return {"status": "invalid", "reason": f"token ids must be whole numbers: {error}"}
    size = len(public.tokenizer)
    if any(not 0 <= i < size for ids in (*sentences, types or []) for i in ids):
        return {"status": "invalid", "reason": f"a token id is outside the vocabulary of {size}"}
    return {
        "status": "ok",
        "reason": "",
        "sentences": sentences,
        "token_types": types,
        "note": str(recovery.note),
    }


def _ids(values: Iterable[Any]) -> list[int]:
    return [operator.index(value) for value in values]


def _counts(values: dict[str, int] | None) -> dict[int, int] | None:
    """Keys of JSON objects are strings."""
    return None if values is None else {int(key): count for key, count in values.items()}


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _device(job: dict[str, Any]) -> torch.device:
    import torch

    torch.set_num_threads(job["threads"])
    return torch.device("cuda" if job["device"].startswith("cuda") else job["device"])


def _status(error: Exception) -> str:
    import torch

    if isinstance(error, Unsupported):
        return "unsupported"
    short = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return "out-of-memory" if short or "not enough memory" in str(error) else "error"


def _reason(error: Exception) -> str:
    if isinstance(error, Unsupported):
        return str(error)
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:500]


WORK: dict[str, Callable[[dict[str, Any], Say], None]] = {
    "describe": describe,
    "update": make_updates,
    "train": train,
    "evaluate": evaluate,
    "recover": recover_all,
}
"""What a job may ask for."""
