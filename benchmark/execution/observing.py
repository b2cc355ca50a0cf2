"""An attack's view inside its worker: from the facts and files of a job to what the attack sees.

What the facts hold is decided in `benchmark.runs.threat_model`; nothing is added here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.execution.events import Event, Progress
from benchmark.execution.jobs import SnapshotFacts, TaskFacts
from benchmark.plugins.registry import model_package
from benchmark.spec import Observation, Public, Update

if TYPE_CHECKING:
    import torch

Emit = Callable[[Event], None]
REPORT_SECONDS = 0.5


class Countdown:
    """Seconds until an attack should hand over what it has, a little before it is ended."""

    def __init__(self, limit: float) -> None:
        self.end = time.monotonic() + limit * 0.95 - 1.0

    def __call__(self) -> float:
        return self.end - time.monotonic()


def public_knowledge(facts: TaskFacts, inbox: Path, device: torch.device) -> Public:
    """What the whole federation knows, read from the files that the job was given."""
    package = model_package()
    model, tokenizer = package.open_model(inbox / "model", facts.objective, facts.precision, device)
    given = inbox / "public.json"
    known = json.loads(given.read_text(encoding="utf-8")) if given.exists() else {}
    prior = None
    if facts.prior == "self":
        prior = package.self_prior(model, tokenizer)
    elif facts.prior == "file":
        prior = package.open_prior(inbox / "prior", tokenizer, device, facts.prior_shares_ids)
    return Public(
        task=facts.task,
        objective=package.objective(facts.objective),
        model=model,
        tokenizer=tokenizer,
        roles=package.roles(model),
        batch_size=facts.batch_size,
        batch_tokens=facts.batch_tokens,
        max_tokens=facts.max_tokens,
        grants=facts.grants,
        text=tuple(known.get("text", ())),
        sources=tuple(known.get("sources", ())),
        prior=prior,
        device=device,
        seed=facts.seed,
        table=_published_table(inbox / "table.safetensors", device),
    )


def _published_table(path: Path, device: torch.device) -> torch.Tensor | None:
    from safetensors.torch import load_file

    return load_file(path)["table"].to(device) if path.exists() else None


def observation(
    public: Public, facts: SnapshotFacts, inbox: Path, emit: Emit, left: Countdown
) -> Observation:
    """One snapshot as the attack sees it."""
    from safetensors.torch import load_file

    tensors = load_file(inbox / facts.file)
    update = Update(
        tensors={name: tensor.to(public.device) for name, tensor in tensors.items()},
        kind=facts.update_kind,
        local_steps=facts.local_steps,
        learning_rate=facts.learning_rate,
        noise_scale=facts.noise_scale,
    )
    return Observation(
        public=public,
        update=update,
        batch_size=facts.batch_size,
        seed=facts.seed,
        labels=facts.labels,
        lengths=facts.lengths,
        frequencies=facts.frequencies,
        type_count=facts.type_count,
        report=_reporter(emit, facts.index),
        seconds_left=left,
    )


def _reporter(emit: Emit, index: int) -> Callable[[int, int, float], None]:
    """Pass on how far a recovery is, a few times a second at most."""
    last = 0.0

    def report(step: int, steps: int, loss: float) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_SECONDS:
            last = time.monotonic()
            emit(Progress(index=index, step=int(step), steps=int(steps), loss=float(loss)))

    return report
