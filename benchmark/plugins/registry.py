"""Finds suites and tasks; the only place where the harness reaches the other packages.

A broken suite is listed with its reason and never stops the others.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack, cast

from benchmark.errors import unknown_name
from benchmark.files import Strict
from benchmark.spec import Batch, Objective, Prior, Roles
from benchmark.suites import LoadedTask, ObjectiveName, Suite, Task

if TYPE_CHECKING:
    import torch
    from _typeshed import DataclassInstance
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from benchmark.plugins.catalog import Entry


Kind = Literal["attack", "defense"]


class ModelPackage(Protocol):
    """What `tasks.public` offers to both sides: the model, its roles, its objective, a prior."""

    def warm_up(self) -> None: ...

    def open_model(
        self, directory: Path, objective: str, precision: str, device: torch.device
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]: ...

    def roles(self, model: torch.nn.Module) -> Roles: ...

    def write_view(
        self, directory: Path, target: Path, objective: str, values: Mapping[str, torch.Tensor]
    ) -> None: ...

    def verify_checksum(self, directory: Path) -> Path: ...

    def objective(self, name: str) -> Objective: ...

    def batch(self, tensors: Mapping[str, torch.Tensor]) -> Batch: ...

    def self_prior(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Prior: ...

    def open_prior(
        self,
        directory: Path,
        task_tokenizer: PreTrainedTokenizerBase,
        device: torch.device,
        shares_vocabulary: bool,
    ) -> Prior: ...


def model_package() -> ModelPackage:
    """The public half of `tasks`; safe inside a worker."""
    return cast(ModelPackage, importlib.import_module("tasks.public"))


@cache
def load_task(task: Task) -> LoadedTask:
    """The private half of `tasks`; for the harness's own process only."""
    return cast(LoadedTask, importlib.import_module("tasks.loaded").load(task))


def training_settings(task: Task) -> dict[str, object]:
    """What training depends on in a task's definition; tasks alike in it share a cost."""
    return cast(
        dict[str, object], importlib.import_module("tasks.training_data").training_settings(task)
    )


def task_code(part: Literal["updates", "training"]) -> Sequence[Path]:
    """Files of the tasks package whose code updates or trainings depend on."""
    return cast(
        Sequence[Path],
        getattr(importlib.import_module("tasks.dependencies"), part.upper()),
    )


def model_catalog() -> Sequence[DataclassInstance]:
    """Rows that describe the models which tasks may name."""
    return cast(
        "Sequence[DataclassInstance]", importlib.import_module("tasks.models.catalog").models()
    )


def weight_packages() -> dict[str, list[Task]]:
    """Installable packages that hold weights, and the tasks that need each of them."""
    held = importlib.import_module("tasks.models.packages").DISTRIBUTIONS
    needed: dict[str, list[Task]] = {}
    for task in all_tasks().values():
        for reference in dict.fromkeys((task.model, task.prior)):
            source, _, name = (reference or "").partition(":")
            for package in held.get(name, ()) if source == "package" else ():
                needed.setdefault(package, []).append(task)
    return needed


class AuditQuestion(TypedDict):
    """What a user asks to be measured of a model and a text of her own."""

    model: str
    """What the user calls it."""
    source: Path
    """Where it lies."""
    text: Path
    """JSON Lines, or one text a line."""
    objective: ObjectiveName
    batch_size: int
    local_steps: int
    learning_rate: float
    sentences: int
    """Texts that are attacked at most."""
    attacks: Sequence[str] | None
    """Strongest first; None: all of them."""
    defenses: Sequence[str] | None
    """Beside none; None: the usual ones."""
    utility: bool
    other_sizes: bool
    """Look at other batch sizes, too."""
    unknown_text: bool
    """The text only stands in for one that nobody has told: nothing of it may be granted."""


def find_own_model(reference: str) -> Path:
    """The folder of a model that a user names by its path or by a model reference."""
    return cast(Path, importlib.import_module("tasks.own.model").find_model(reference))


def own_suite(folder: Path, **question: Unpack[AuditQuestion]) -> Suite:
    """Tasks over a user's own model and text, staged in a folder, and what to run on them."""
    module = importlib.import_module("tasks.own.suite")
    return cast(Suite, module.own_suite(folder, **question))


def render_audit(report: Strict) -> str:
    """The report of an audit as one page."""
    return cast(str, importlib.import_module("leaderboard.render.audit").render(report))


class SiteContent(TypedDict):
    """What the pages tell beside the results."""

    suites: Sequence[Suite]
    entries: Sequence[Entry]
    broken: Sequence[Broken]


def render_site(
    results: Path,
    out: Path,
    running: tuple[int, int] | None = None,
    timing: Sequence[Path] = (),
    **content: Unpack[SiteContent],
) -> Path:
    """Pages from records, with what the registry knows beside them.

    `running` marks them as those of a run that is not over: cells that have ended, and all cells.
    `timing` names files of pytest-benchmark, or folders of them, that get a page.
    """
    site = importlib.import_module("leaderboard.render.site")
    return cast(Path, site.render_all(results, out, running=running, timing=timing, **content))


def export_results(
    results: Path, form: Literal["csv", "parquet", "latex"], **content: Unpack[SiteContent]
) -> bytes:
    """All results as one tidy table, or the ranked tables as LaTeX."""
    site = importlib.import_module("leaderboard.render.site")
    return cast(bytes, site.export_all(results, form, **content))


def check_site(results: Path, out: Path) -> None:
    """Refuse a folder for pages that is not ours to replace."""
    importlib.import_module("leaderboard.render.publish").check_target(out, results)


class Standing(Protocol):
    """One row of a ranking: an attack on a task under a defense, by one metric."""

    task: str
    version: int
    defense: str
    seed: int
    current: bool
    """Not of snapshots that newer ones have replaced."""
    metric: str
    """Empty where the row is in no ranking."""
    rank: int
    shared: bool
    decidable: bool
    """Whether so few snapshots could tell any two of the ranking apart."""
    attack: str
    mean: float
    low: float
    high: float
    n: int
    guess: float | None
    """What the best baseline reaches on the same snapshots."""
    seconds: float | None
    cut: int
    """Snapshots that the time limit has cut."""
    status: str
    reason: str


def standings(results: Path, metric: str | None = None) -> Sequence[Standing]:
    """All rankings of the leaderboard, row by row, as its pages have them, or by another metric."""
    families = {task.name: task.family for task in all_tasks().values()}
    module = importlib.import_module("leaderboard.data.standings")
    return cast(Sequence[Standing], module.standings(results, families, metric))


@dataclass(frozen=True)
class Broken:
    """A plug-in or suite that cannot be used, and why."""

    kind: str
    where: str
    reason: str


@cache
def find_suites() -> tuple[Mapping[str, Suite], Sequence[Broken]]:
    """All suites by name, and the suite files that could not be read."""
    found: dict[str, Suite] = {}
    broken: list[Broken] = []
    package = importlib.import_module("tasks.suites")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        try:
            suite: Suite = importlib.import_module(f"tasks.suites.{module.name}").SUITE
            found[suite.name] = suite
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            broken.append(Broken("suite", f"tasks/suites/{module.name}.py", reason))
    return found, tuple(broken)


def get_suite(name: str) -> Suite:
    """A suite by name, or a sentence with the nearest names."""
    found, _ = find_suites()
    if name not in found:
        raise unknown_name("suite", name, found)
    return found[name]


def all_tasks() -> dict[str, Task]:
    """All tasks of all suites by their full name."""
    return {task.name: task for found in find_suites()[0].values() for task in found.tasks}


def panel_of(name: str) -> tuple[str, ...]:
    """The attacks that a defense has to face on a task; none where its suite declares none."""
    suite = find_suites()[0].get(name.partition("/")[0])
    task = next((task for task in suite.tasks if task.name == name), None) if suite else None
    return suite.panels.get(task.objective, ()) if suite and task else ()


@cache
def trained_as(task: Task) -> Task:
    """The first task of the suite that trains alike: variants in batch size share one cost."""
    settings = training_settings(task)
    suite = get_suite(task.name.partition("/")[0])
    return next((other for other in suite.tasks if training_settings(other) == settings), task)
