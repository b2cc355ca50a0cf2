"""Builds records, scores and a catalog that look like real ones, the same on every call."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

from benchmark.files import Parameters, file_digest
from benchmark.results.measure import summary
from benchmark.results.schema import (
    Example,
    MetricValue,
    Provenance,
    Record,
    Score,
    SnapshotResult,
    Status,
)
from benchmark.results.store import record_path, score_path
from leaderboard.data.catalog import (
    BrokenRow,
    Catalog,
    ParameterRow,
    SubmissionRow,
    SuiteRow,
    TaskRow,
)

HOSTILE = "<script>alert('leak')</script>"
SNAPSHOTS = 8
MANY = 16
"""Snapshots of the sample results: enough to tell all of their attacks apart."""
PANEL = ("prior_only", "bag_of_words", "lamp", "dager")
"""Attacks that every defense has to face in the sample results."""
BASELINES = ("random", "prior_only")
SENTENCE_METRICS = ("rouge1", "rouge2", "rougeL", "best_rougeL", "exact_match", "nerr")
TYPE_METRICS = ("type_precision", "type_recall", "type_f1", "ptlr")

TASKS = {  # name: (family, how easily it leaks)
    "mini/cola-b1": ("classification", 1.0),
    "mini/cola-b4": ("classification", 0.7),
    "mini/sst2-b2": ("classification", 0.85),
    "mini/wikitext-b1": ("language-modeling", 0.9),
    "mini/enron-b8": ("language-modeling", 0.55),
    "mini/iwslt-t100": ("translation", 0.8),
}
ATTACKS: dict[tuple[str, str], float] = {  # (name, loss): strength
    ("random", ""): 0.02,
    ("prior_only", ""): 0.08,
    ("bag_of_words", ""): 0.9,
    ("dlg", ""): 0.25,
    ("tag", ""): 0.35,
    ("lamp", ""): 0.66,
    ("lamp", "l2l1"): 0.63,
    ("film", ""): 0.6,
    ("flat_chat", ""): 0.8,
    ("dager", ""): 0.97,
}
TOKEN_SET_ATTACKS = frozenset({"bag_of_words", "flat_chat"})
DEFENSES: dict[str, tuple[Parameters, float]] = {  # name: (parameters, share of the leak left)
    "none": ({}, 1.0),
    "prune": ({"ratio": 0.9}, 0.7),
    "dpsgd": ({"clip": 1.0, "noise": 0.5}, 0.12),
    "freeze_embeddings": ({}, 0.5),
}
SENTENCES = (
    "the old harbour master signed invoice 4471 before the storm arrived",
    "she asked whether the committee had already read the second report",
    "a quiet film about two brothers that never finds its feet",
)


def make_provenance() -> Provenance:
    """Where and when a sample record says that it was made."""
    return Provenance(
        fingerprint="f" * 64,
        attack_digest="a" * 64,
        defense_digest="d" * 64,
        git_commit="0123456789abcdef0123456789abcdef01234567",
        git_dirty=False,
        packages={"torch": "2.9.0", "transformers": "4.57.1"},
        python="3.11.9",
        platform="Linux-6.1-x86_64",
        processor="AMD EPYC 7B13",
        cores=2,
        memory_gb=15.6,
        device="cpu",
        threads=2,
        tf32=False,
        sandbox="bubblewrap",
        created=datetime(2025, 3, 14, 15, 9, 26, tzinfo=UTC),
    )


def make_snapshots(
    count: int = SNAPSHOTS,
    failed: int = 0,
    token_sets: bool = False,
    reason: str = "diverged",
    cut: int = 0,
) -> list[SnapshotResult]:
    """Results of snapshots, the last `failed` of which ended in an error, the first cut by time."""
    good = [
        SnapshotResult(
            index=index,
            digest="5" * 64,
            status=Status.OK,
            seconds=0.5 + index / 8,
            sentences=[] if token_sets else [[5, 6, 7]],
            texts=[] if token_sets else ["some recovered text"],
            token_types=[5, 6, 7] if token_sets else None,
            stopped_by_clock=index < cut,
        )
        for index in range(count - failed)
    ]
    bad = [
        SnapshotResult(index=index, digest="5" * 64, status=Status.ERROR, reason=reason)
        for index in range(count - failed, count)
    ]
    return good + bad


def make_record(
    task: str = "mini/cola-b1",
    attack: str = "lamp",
    defense: str = "none",
    *,
    attack_parameters: Parameters | None = None,
    defense_parameters: Parameters | None = None,
    seed: int = 0,
    status: Status = Status.OK,
    reason: str = "",
    snapshots: list[SnapshotResult] | None = None,
    version: int = 1,
    told: list[str] | None = None,
    baseline: bool | None = None,
) -> Record:
    """A record with sound defaults."""
    made = make_snapshots() if snapshots is None and status is Status.OK else snapshots or []
    return Record(
        suite=task.split("/")[0],
        task=task,
        task_version=version,
        attack=attack,
        attack_parameters=attack_parameters or {},
        baseline=baseline,
        defense=defense,
        defense_parameters=defense_parameters or {},
        seed=seed,
        status=status,
        reason=reason,
        snapshots=made,
        told=told,
        prepare_seconds=0.2 if made else None,
        peak_mb=812.4 if made else None,
        bytes_up=4_194_304.0 if made else None,
        provenance=make_provenance(),
    )


def make_value(values: list[float]) -> MetricValue:
    """Mean and Student's interval."""
    return summary("", values)


def store(results: Path, record: Record, score: Score | None = None) -> Path:
    """Write a record and, with its digest filled in, a score beside it.

    Hundreds of files, so without the sync to disk that `benchmark.records.write` does for each.
    """
    path = record_path(results, record)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.model_dump_json(), "utf-8")
    if score:
        fresh = score.model_copy(update={"record_digest": file_digest(path)})
        score_path(path).write_text(fresh.model_dump_json(), "utf-8")
    return path


def make_score(
    metrics: dict[str, list[float]] | None = None, examples: list[Example] | None = None
) -> Score:
    """A score from one list of values per metric."""
    given = metrics or {"rougeL": [0.5] * SNAPSHOTS, "type_f1": [0.6] * SNAPSHOTS}
    return Score(
        record_digest="",
        metrics={name: summary(name, values) for name, values in given.items()},
        examples=examples or [],
    )


def write_sample_results(results: Path) -> None:
    """Every task, attack and defense above, with failures where they would occur."""
    for task in TASKS:
        for defense in DEFENSES:
            for attack, loss in ATTACKS:
                _store_cell(results, task, attack, loss, defense)
    store(results, make_record("mini/cola-b4", "lamp", seed=1))
    hostile = make_record("mini/cola-b1", HOSTILE, status=Status.ERROR, reason=HOSTILE)
    store(results, hostile)


def _store_cell(results: Path, task: str, attack: str, loss: str, defense: str) -> None:
    parameters: Parameters = {"loss": loss} if loss else {}
    settings, left = DEFENSES[defense]
    status, reason = _outcome(task, attack, defense)
    token_sets = attack in TOKEN_SET_ATTACKS
    failed = 2 if (task, attack, defense) == ("mini/enron-b8", "film", "none") else 0
    record = make_record(
        task,
        attack,
        defense,
        attack_parameters=parameters,
        defense_parameters=settings,
        status=status,
        reason=reason,
        baseline=attack in BASELINES,
        snapshots=make_snapshots(MANY, failed, token_sets) if not reason else [],
    )
    level = ATTACKS[attack, loss] * TASKS[task][1] * left
    source = random.Random(f"{task} {attack} {loss} {defense}")
    store(results, record, None if reason else _score(source, level, token_sets, failed))


def _outcome(task: str, attack: str, defense: str) -> tuple[Status, str]:
    if defense == "freeze_embeddings" and attack in {"bag_of_words", "film", "flat_chat"}:
        return Status.UNSUPPORTED, "the gradient of word-embedding is not shared under this defense"
    if attack == "film" and "iwslt" in task:
        return Status.UNSUPPORTED, "defined for causal-lm, the task's objective is translation"
    if attack == "dager" and task == "mini/enron-b8":
        return Status.TIMEOUT, "more than 300 s for one snapshot"
    if attack == "tag" and task == "mini/iwslt-t100":
        return Status.OUT_OF_MEMORY, "more than 4096 MB"
    return Status.OK, ""


def _score(source: random.Random, level: float, token_sets: bool, failed: int) -> Score:
    names = TYPE_METRICS if token_sets else SENTENCE_METRICS + TYPE_METRICS
    metrics = {}
    for name in names:
        raw = [
            source.gauss(level * (1.1 if name in TYPE_METRICS else 1), 0.08) for _ in range(MANY)
        ]
        kept = [min(max(value, 0.0), 1.0) for value in raw[: MANY - failed]]
        metrics[name] = kept + [0.0] * failed
    examples = [] if token_sets else [_example(source, i, level) for i in range(len(SENTENCES))]
    score = make_score(metrics, examples)
    cost = MetricValue(mean=812.4, low=812.4, high=812.4, n=1, values=[812.4])
    return score.model_copy(update={"metrics": score.metrics | {"peak_mb": cost}})


def _example(source: random.Random, index: int, level: float) -> Example:
    words = SENTENCES[index].split()
    noise = ["of", "river", "seventeen", "never", "painted", "under", "market"]
    guessed = [word if source.random() < level else source.choice(noise) for word in words]
    if source.random() > level:
        source.shuffle(guessed)
    return Example(index=index, truth=SENTENCES[index], recovered=" ".join(guessed))


def sample_catalogue() -> Catalog:
    """What a registry would tell about the sample results, one broken plug-in included."""
    return Catalog(
        suites=(
            SuiteRow("mini", "Tiny models and embedded corpora.", (("classification", PANEL),)),
            SuiteRow("paper", "The papers' own corpora, models and batch sizes."),
        ),
        tasks=(
            *(_task_row(name, family) for name, (family, _) in TASKS.items()),
            _task_row("paper/cola-bert-b4", "classification"),
        ),
        submissions=(
            *(_attack_row(name) for name in dict.fromkeys(name for name, _ in ATTACKS)),
            *(SubmissionRow("defense", d, f"Shares what {d} lets through.") for d in DEFENSES),
        ),
        broken=(BrokenRow("submissions/attacks/broken.py", "ImportError: no module named 'jax'"),),
    )


def _task_row(name: str, family: str) -> TaskRow:
    return TaskRow(
        name=name,
        family=family,
        summary="Recover the sentences of one batch from the gradient of a tiny trained model.",
        batch_size=int(name.rsplit("-b", 1)[1]) if "-b" in name else 1,
        batch_tokens=None if "-b" in name else 100,
        snapshots=MANY,
        model="builtin:bert-tiny",
        corpus="builtin:cola",
        checkpoint="Trained on the public split for two epochs.",
        seen="domain",
        mode="eval",
        precision="float32",
        grants=("labels", "lengths"),
        panel=PANEL,
        papers=("Balunović et al., LAMP: Extracting Text from Gradients, 2022",),
    )


def _attack_row(name: str) -> SubmissionRow:
    return SubmissionRow(
        kind="attack",
        name=name,
        summary=f"Searches for the text whose gradient matches, the {name} way.",
        paper="Balunović et al., LAMP: Extracting Text from Gradients with Priors, NeurIPS 2022",
        parameters=(ParameterRow("loss", "cosine", "distance between gradients"),),
        observes=("word-embedding",),
        needs=("labels",),
        baseline=name in BASELINES,
        digest="ab" * 32,
    )
