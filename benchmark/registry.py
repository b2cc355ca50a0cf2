"""Finds suites, tasks and submissions; the only place where the harness reaches the other rooms.

A broken plug-in or suite is listed with its reason and never stops the others. Submissions are
described by a sandboxed worker, so their code does not run in this process.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from benchmark.errors import UserError, unknown_name
from benchmark.paths import ROOT, cache_directory, submission_directories
from benchmark.records import write_atomically
from benchmark.spec import Batch, Objective, Prior, Roles, Scalar, Truth
from benchmark.suites import Suite, Task

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Kind = Literal["attack", "defense"]
ENTRY_POINTS = "leakboard.submissions"


class ModelRoom(Protocol):
    """What `tasks.public` offers to both sides: the model, its roles, its objective, a prior."""

    def warm_up(self) -> None: ...

    def open_model(
        self, directory: Path, objective: str, precision: str, device: torch.device
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]: ...

    def roles(self, model: torch.nn.Module) -> Roles: ...

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


class PrivateBatch(Protocol):
    """One client's batch, as tensors and as the text behind them."""

    batch: Batch
    truth: Truth
    labels: tuple[int, ...] | None
    lengths: tuple[int, ...]


class TrainingData(Protocol):
    """What a defense trains on, and what its model is tested with."""

    train: Batch
    validation: Batch
    test: Batch
    references: tuple[str, ...]
    """The test texts as a reader knows them."""


class LoadedTask(Protocol):
    """The defender's side of a task."""

    task: Task
    model_directory: Path
    prior_directory: Path | None
    prior_shares_ids: bool
    digest: str
    """Over the task's definition, weights, corpus and prior: what a result depends on."""
    settings_digest: str
    """Over the settings and weights that turn a batch into an update."""
    price_digest: str
    """Over everything that the price of a defense depends on, beside the defense."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...

    @property
    def special_ids(self) -> frozenset[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def all_in_vocabulary(self, sentences: Sequence[Sequence[int]]) -> bool: ...

    def private_batch(self, index: int, seed: int) -> PrivateBatch: ...

    def public_text(self) -> list[str]: ...

    def public_sources(self) -> list[str]: ...

    def warmup_batches(self, index: int, seed: int) -> list[Batch]: ...

    @property
    def training_data(self) -> TrainingData: ...


def model_room() -> ModelRoom:
    """The public half of the tasks room; safe inside a worker."""
    return cast(ModelRoom, importlib.import_module("tasks.public"))


@cache
def load_task(task: Task) -> LoadedTask:
    """The private half of the tasks room; the harness's own process only."""
    return cast(LoadedTask, importlib.import_module("tasks.private").load(task))


def price_settings(task: Task) -> dict[str, object]:
    """What training depends on in a task's definition; tasks alike in it share a price."""
    return cast(dict[str, object], importlib.import_module("tasks.utility").price_settings(task))


def model_catalogue() -> Sequence[Any]:
    """Rows that describe the models which tasks may name."""
    return cast(Sequence[Any], importlib.import_module("tasks.models.catalog").models())


def render_site(results: Path, out: Path, **content: Any) -> Path:
    """The leaderboard room: pages from records, with what the registry knows beside them."""
    return cast(
        Path, importlib.import_module("leaderboard.site").render_all(results, out, **content)
    )


@dataclass(frozen=True)
class Broken:
    """A plug-in or suite that cannot be used, and why."""

    kind: str
    where: str
    reason: str


@cache
def suites() -> tuple[Mapping[str, Suite], Sequence[Broken]]:
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


def suite(name: str) -> Suite:
    """A suite by name, or a sentence with the nearest names."""
    found, _ = suites()
    if name not in found:
        raise unknown_name("suite", name, found)
    return found[name]


def tasks() -> dict[str, Task]:
    """All tasks of all suites by their full name."""
    return {task.name: task for found in suites()[0].values() for task in found.tasks}


# ----------------------------------------------------------------------------------- submissions


@dataclass(frozen=True)
class Entry:
    """A usable submission: where it is, and what it says of itself."""

    kind: Kind
    name: str
    reference: str
    """A file, a folder or `module:Class`."""
    digest: str
    """sha256 over its source and the shared building blocks that it imports."""
    summary: str
    paper: str
    allow_tf32: bool
    parameters: Mapping[str, Mapping[str, Any]]
    variants: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    observes: Sequence[str] = ()
    needs: Sequence[str] = ()
    objectives: Sequence[str] = ()
    overrides: Sequence[str] = ()
    parts: tuple[Entry, ...] = ()
    """Of a combination of defenses."""

    def without_defaults(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The settings that differ from the defaults."""
        return {k: v for k, v in settings.items() if v != self.parameters[k]["default"]}

    def check_parameters(self, given: Mapping[str, str]) -> dict[str, Scalar]:
        """Typed values for `key=value` strings; refuses unknown names and values out of range."""
        values: dict[str, Scalar] = {}
        for key, text in given.items():
            if key not in self.parameters:
                raise unknown_name(f"parameter of {self.name}", key, self.parameters)
            value = _typed(self.name, key, text, self.parameters[key])
            if value != self.parameters[key]["default"]:
                values[key] = value
        return values


def _typed(owner: str, key: str, text: str, rule: Mapping[str, Any]) -> Scalar:
    kind = type(rule["default"])
    try:
        if kind is bool:
            value: Scalar = {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        else:
            value = cast(Scalar, kind(text))
    except (ValueError, KeyError):
        raise UserError(f"{owner}: {key}={text} is not of type {kind.__name__}.") from None
    low, high = rule["low"], rule["high"]
    too_low = low is not None and not float(value) >= low
    too_high = high is not None and not float(value) <= high
    if too_low or too_high:
        bounds = f"between {'-∞' if low is None else low} and {'∞' if high is None else high}"
        raise UserError(f"{owner}: {key}={text} is out of range; it must lie {bounds}.")
    if rule["choices"] and value not in rule["choices"]:
        raise UserError(
            f"{owner}: {key}={text} is not one of {', '.join(map(str, rule['choices']))}."
        )
    return value


@dataclass
class Catalogue:
    """All submissions of one kind: the usable ones by name, and the broken ones."""

    entries: dict[str, Entry] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    def names(self) -> dict[str, tuple[Entry, Mapping[str, Scalar]]]:
        """Every name that can be asked for: submissions, and their variants with the settings."""
        variants = {
            name: (entry, settings)
            for entry in self.entries.values()
            for name, settings in entry.variants.items()
        }
        return variants | {name: (entry, {}) for name, entry in self.entries.items()}

    def broken_behind(self, name: str) -> Broken | None:
        """The broken plug-in that a name, or the name of one of its variants, points to."""
        for item in self.broken:
            stem = Path(item.where).stem
            if name == stem or name.startswith(f"{stem}_"):
                return item
        return None

    def get(self, kind: str, name: str) -> Entry:
        """An entry by name; a broken one is named with its reason."""
        if name in self.entries:
            return self.entries[name]
        if item := self.broken_behind(name):
            raise UserError(f"The {kind} in {item.where} is broken: {item.reason}.")
        raise unknown_name(kind, name, self.names())


Describe = Callable[[Kind, str], dict[str, Any]]
"""Asks a sandboxed worker about a submission: `{"meta": ...}` or `{"broken": reason}`."""


def submissions(kind: Kind, describe: Describe) -> Catalogue:
    """Everything in `submissions/<kind>s/` and in installed packages that declare some."""
    catalogue = Catalogue()
    for reference, where in _candidates(kind):
        digest = source_digest(reference)
        answer = _described(kind, reference, digest, describe)
        reason = answer.get("broken")
        name = answer.get("meta", {}).get("name", "")
        if reason is None and name in catalogue.entries:
            other = _relative(catalogue.entries[name].reference)
            reason = f"the name {name!r} is taken by {other} already"
        if reason is not None:
            catalogue.broken.append(Broken(kind, where, reason))
        else:
            catalogue.entries[name] = Entry(
                kind=kind, reference=reference, digest=digest, **answer["meta"]
            )
    return catalogue


def _candidates(kind: Kind) -> Iterator[tuple[str, str]]:
    for base in submission_directories():
        folder = base / f"{kind}s"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
            if is_module and not path.name.startswith(("_", ".")):
                yield str(path), _relative(str(path))
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS)):
        if point.name.startswith(f"{kind}."):
            yield point.value, f"entry point {point.name}"


def _relative(reference: str) -> str:
    path = Path(reference)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else reference


def _described(kind: Kind, reference: str, digest: str, describe: Describe) -> dict[str, Any]:
    """The worker's answer, remembered by the digest of the source."""
    key = hashlib.sha256(f"{kind} {reference} {digest}".encode()).hexdigest()
    path = cache_directory() / "descriptions" / f"{key}.json"
    try:
        return cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
    except (OSError, json.JSONDecodeError):
        answer = describe(kind, reference)
        if "meta" in answer:  # a broken one may be mended by an installation, so ask again
            write_atomically(path, json.dumps(answer))
        return answer


def source_digest(reference: str) -> str:
    """sha256 over a submission's files and, transitively, the `submissions` modules it imports."""
    if not Path(reference).exists():
        module = importlib.util.find_spec(reference.partition(":")[0])
        reference = (module.origin if module and module.origin else "") or reference
    todo, seen = _python_files(Path(reference)), {}
    while todo:
        path = todo.pop()
        if path not in seen and path.is_file():
            seen[path] = path.read_bytes()
            todo += _imported_blocks(seen[path])
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(seen[path]).digest())
    return digest.hexdigest()


def _python_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _imported_blocks(source: bytes) -> list[Path]:
    """Files of the shared building blocks named by import statements."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    places = [ROOT.joinpath(*name.split(".")) for name in names if name.startswith("submissions.")]
    return [file for p in places for file in (p.with_suffix(".py"), p / "__init__.py")]
