"""What is asked of an audit, and how an audit goes from there to its report."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import psutil

from benchmark.auditing.plan import make_plan
from benchmark.auditing.redaction import redacted
from benchmark.auditing.report import Report, Setup
from benchmark.auditing.session import AuditSession
from benchmark.errors import UserError
from benchmark.execution import sandbox
from benchmark.execution.describing import submissions
from benchmark.execution.devices import choose
from benchmark.execution.engines.local import LocalEngine
from benchmark.metrics.entities import best_tagger
from benchmark.paths import ROOT, cache_directory, cache_in
from benchmark.plugins.catalog import Catalog
from benchmark.plugins.registry import load_task, own_suite
from benchmark.suites import ObjectiveName, Suite, Task

NEEDED = 5
"""Memory that one worker takes, as a multiple of the weights: model, gradient, copies of both."""
BASE_BYTES = 1 << 29
"""What a worker takes without a model."""
MEMORY = 0.85
"""Share of the free memory that all workers together may take."""


@dataclass(frozen=True)
class AuditRequest:
    """What a user asks for."""

    objective: ObjectiveName = "causal-lm"
    batch_size: int = 1
    attacks: Sequence[str] | None = None
    """Strongest first; None: all of them."""
    defenses: Sequence[str] | None = None
    """Beside none; None: noise, DP-SGD, pruning and freezing."""
    local_steps: int = 1
    learning_rate: float = 0.01
    seconds: float = 600.0
    utility: bool = False
    redact: bool = False
    sentences: int = 10
    """Texts that are attacked at most."""
    seed: int = 0
    device: str = "auto"
    jobs: int = 0
    """Workers at once; 0: one a core or one a GPU."""
    memory_limit_gb: float = 0.0
    """Of one worker; 0: its share of what is free."""
    knows_text: bool = True
    """Whether the text is the one behind the update; else it only stands in for it."""


@dataclass(frozen=True)
class Material:
    """The model and the text that an audit is about."""

    model: str
    """What the user calls it."""
    source: Path
    text: Path


Changed = Callable[[Report], None]
Store = Callable[[Suite, Catalog], None]
"""Puts snapshots into the cache before anything is run."""


def find_catalogs(running: LocalEngine | None = None) -> tuple[Catalog, Catalog]:
    """Attacks and defenses; a worker starts only where one of them has changed."""
    with running_or(running, LocalEngine(["cpu"], 1)) as engine:
        return submissions("attack", engine), submissions("defense", engine)


def conduct(
    request: AuditRequest,
    material: Material,
    folder: Path,
    changed: Changed,
    store: Store | None = None,
    running: LocalEngine | None = None,
) -> Report:
    """Carry out an audit inside the workspace `folder`, by workers that run already, if any."""
    started = time.monotonic()
    suite = _suite(request, material, folder, other_sizes=store is None)
    resources = _resources(request, suite.tasks[0])
    usual_cache = cache_directory().parents[1]
    with cache_in(usual_cache):  # descriptions of submissions are not private
        attacks, defenses = find_catalogs(running)
    plan = make_plan(suite, attacks, defenses, folder / "results", request.seed)
    if store is not None:
        store(suite, defenses)
    show = redacted if request.redact else _as_it_is
    hidden = (*_private_places(material), usual_cache)
    with running_or(running, LocalEngine(resources.devices, resources.threads, hidden)) as engine:
        session = AuditSession(
            plan=plan,
            engine=engine,
            setup=_setup(request, material, suite),
            memory_limit_mb=resources.memory_mb,
            changed=lambda report: changed(show(report)),
            knows_text=request.knows_text,
            started=started,
        )
        return show(session.run())


def _private_places(material: Material) -> Iterator[Path]:
    """What no attack may read wherever it lies: the text, and what lies beside a user's model."""
    yield material.text.resolve()
    source = material.source.resolve()
    if not any(source.is_relative_to(place) for place in (ROOT, Path(sys.prefix).resolve())):
        yield source


def running_or(
    running: LocalEngine | None, other: LocalEngine
) -> AbstractContextManager[LocalEngine]:
    """Workers that run already, which go on, or others, which end with the audit."""
    return other if running is None else nullcontext(running)


def _suite(request: AuditRequest, material: Material, folder: Path, other_sizes: bool) -> Suite:
    return own_suite(
        folder / "model",
        model=material.model,
        source=material.source,
        text=material.text,
        objective=request.objective,
        batch_size=request.batch_size,
        local_steps=request.local_steps,
        learning_rate=request.learning_rate,
        sentences=request.sentences,
        attacks=request.attacks,
        defenses=request.defenses,
        utility=request.utility,
        other_sizes=other_sizes,
        unknown_text=not request.knows_text,
    )


def _as_it_is(report: Report) -> Report:
    return report


@dataclass(frozen=True)
class Resources:
    """What workers get."""

    devices: list[str]
    threads: int
    memory_mb: float


def _resources(request: AuditRequest, task: Task) -> Resources:
    """As many workers as memory holds; refuses where it does not hold one."""
    weights = sum(4 * math.prod(shape) for shape in load_task(task).form.shapes.values())
    needed = BASE_BYTES + NEEDED * weights
    free = request.memory_limit_gb * 2**30 or float(psutil.virtual_memory().available) * MEMORY
    if needed > free:
        raise UserError(
            f"The model takes {weights / 2**30:.1f} GiB in single precision, and an audit about "
            f"{needed / 2**30:.1f} GiB, more than the {free / 2**30:.1f} GiB of memory that it may "
            "use; take a smaller model or a larger machine."
        )
    devices, threads = choose(request.device, request.jobs)
    fitting = int(free // needed)
    if not request.memory_limit_gb and fitting < len(devices):
        devices, threads = choose(request.device, fitting)
    share = free if request.memory_limit_gb else free / len(devices)
    return Resources(devices, threads, share / 2**20)


def _setup(request: AuditRequest, material: Material, suite: Suite) -> Setup:
    task = suite.tasks[0]
    training = task.training
    assert training is not None  # of every task of an audit
    epochs = "one epoch" if training.epochs == 1 else f"{training.epochs} epochs"
    return Setup(
        model=material.model,
        architecture=suite.summary,
        objective=request.objective,
        texts=sum(bool(line.strip()) for line in material.text.read_bytes().splitlines()),
        batch_size=request.batch_size,
        local_steps=request.local_steps,
        max_tokens=task.max_tokens,
        granted=sorted(map(str, task.grants)),
        entities_by=best_tagger().package,
        dp_budget=(
            f"{epochs} over {training.rows:,} texts in batches of {training.batch_size}, "
            f"δ = {training.delta:.2g}"
        ),
        seed=request.seed,
        budget_seconds=request.seconds,
        took_seconds=0.0,
        created=datetime.now(UTC).replace(microsecond=0),
        version=metadata.version("leakboard"),
        sandbox=sandbox.sandbox_kind(),
        redacted=False,
        whole=False,
    )
