"""Runs one job in its own process: describe a submission, make updates, or recover text.

Everything a job may know arrives in the job itself and in the files it names; everything it finds
out leaves as one JSON line at a time.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from benchmark import plugins, registry
from benchmark.clock import Stopwatch, device_peak_mb, process_peak_mb
from benchmark.spec import Attack, Client, Defense, Knowledge, Observation, Public, Recovery, Update

if TYPE_CHECKING:
    import torch

Say = Callable[..., None]


def warm_up() -> None:
    """Import, before any fork, what most jobs will import."""
    registry.model_room()


def main(job: dict[str, Any], output: TextIO) -> int:
    """Do the job; 0 unless the process itself is in trouble."""

    def say(**event: Any) -> None:
        output.write(json.dumps(event) + "\n")
        output.flush()

    try:
        {"describe": describe, "update": make_updates, "recover": recover_all}[job["kind"]](
            job, say
        )
    except plugins.BrokenPlugin as error:
        say(event="broken", reason=str(error))
    except Exception as error:
        import traceback

        traceback.print_exc()
        say(event="failed", status=_status(error), reason=_reason(error))
    return 0


def describe(job: dict[str, Any], say: Say) -> None:
    """Metadata of a submission, so that the harness itself never imports one."""
    say(event="described", meta=plugins.describe(plugins.load(job["submission"], job["role"])))


def make_updates(job: dict[str, Any], say: Say) -> None:
    """Run a defense's client on each private batch and store what leaves the client."""
    import torch
    from safetensors.torch import load_file, save_file

    room, device = registry.model_room(), _device(job)
    defense = plugins.load(job["submission"], "defense")(**job["parameters"])
    assert isinstance(defense, Defense)
    inbox, outbox = Path(job["inbox"]), Path(job["outbox"])
    model, _ = room.open_model(inbox / "model", job["objective"], job["precision"], device)
    model.train(job["mode"] == "train")
    roles = room.roles(model)
    for item in job["batches"]:
        batch = room.batch({k: v.to(device) for k, v in load_file(inbox / item["file"]).items()})
        torch.manual_seed(item["seed"])
        generator = torch.Generator(device).manual_seed(item["seed"])
        client = Client(model, room.objective(job["objective"]), roles, generator)
        update = defense.client_update(client, batch)
        _check_update(update)
        tensors = {n: t.detach().cpu().contiguous() for n, t in update.tensors.items()}
        save_file(tensors, outbox / item["out"])
        say(
            event="updated",
            index=item["index"],
            update_kind=update.kind,
            noise_scale=update.noise_scale,
            epsilon=update.epsilon,
            bytes_up=update.bytes_up,
            roles={str(role): name for role, name in roles.names.items()},
        )


def _check_update(update: Update) -> None:
    if not isinstance(update, Update):
        raise TypeError(f"client_update returned {type(update).__name__} instead of an Update")
    for name, tensor in update.tensors.items():
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"the update of {name} holds NaN or infinite values")


def recover_all(job: dict[str, Any], say: Say) -> None:
    """Prepare the attack once, then recover each snapshot, each on its own clock."""
    import torch

    device = _device(job)
    torch.manual_seed(job["seed"])
    attack = plugins.load(job["submission"], "attack")(**job["parameters"])
    assert isinstance(attack, Attack)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = attack.allow_tf32
    public = _public(job, device)
    with Stopwatch(device) as watch:
        attack.prepare(public)
    say(event="prepared", seconds=watch.seconds)
    for item in job["snapshots"]:
        item["file"] = Path(job["inbox"]) / item["file"]
        say(event="recovered", index=item["index"], **_recover(attack, public, item, device))
    say(event="done", peak_mb=process_peak_mb(), device_peak_mb=device_peak_mb(device))


def _public(job: dict[str, Any], device: torch.device) -> Public:
    """What the whole federation knows, read from the files that the job names."""
    room, inbox = registry.model_room(), Path(job["inbox"])
    model, tokenizer = room.open_model(inbox / "model", job["objective"], job["precision"], device)
    given = inbox / "public.json"
    text = json.loads(given.read_text(encoding="utf-8")) if given.exists() else []
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
        text=tuple(text),
        prior=prior,
        device=device,
        seed=job["seed"],
    )


def _recover(
    attack: Attack, public: Public, item: dict[str, Any], device: torch.device
) -> dict[str, Any]:
    """One timed recovery; an exception here fails this snapshot, not the cell."""
    import torch
    from safetensors.torch import load_file

    update = Update(
        tensors={n: t.to(device) for n, t in load_file(item["file"]).items()},
        kind=item["update_kind"],
        noise_scale=item["noise_scale"],
    )
    observation = Observation(
        public=public,
        update=update,
        batch_size=item["batch_size"],
        seed=item["seed"],
        labels=_tuple(item["labels"]),
        lengths=_tuple(item["lengths"]),
    )
    torch.manual_seed(item["seed"])
    watch = Stopwatch(device)
    try:
        with watch:
            recovery = attack.recover(observation)
    except Exception as error:
        import traceback

        traceback.print_exc()
        return {"status": _status(error), "reason": _reason(error), "seconds": watch.seconds}
    return {"seconds": watch.seconds, **_answer(recovery, public)}


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


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _device(job: dict[str, Any]) -> torch.device:
    import torch

    torch.set_num_threads(job["threads"])
    return torch.device("cuda" if job["device"].startswith("cuda") else job["device"])


def _status(error: Exception) -> str:
    import torch

    short = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return "out-of-memory" if short or "not enough memory" in str(error) else "error"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:500]
