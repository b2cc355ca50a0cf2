"""From a user's own model and text to tasks, and to what an audit runs on them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from benchmark.errors import UserError
from benchmark.plugins.registry import AuditQuestion
from benchmark.spec import Knowledge
from benchmark.suites import NO_DEFENSE, Family, ObjectiveName, Pairing, Suite, Task, Training
from tasks.corpora import own
from tasks.own.model import OwnModel, examine, stage_model
from tasks.own.rows import OwnRows, make_rows
from tasks.own.texts import OwnText, read_texts


@dataclass(frozen=True)
class Order:
    """Attacks in the order in which they are tried."""

    quick: tuple[str, ...]
    """What reads most in the least time, strongest first: tried everywhere before anything else."""
    baselines: tuple[str, ...] = ()
    """Nothing can be judged without them, so they come early; they read no update, so once."""
    thorough: tuple[str, ...] = ()
    """What is tried then; `*` stands for all attacks that are not named here."""


ORDER = Order(
    quick=("dager", "bag_of_words"),
    baselines=("random", "prior_only"),
    thorough=(
        *("film", "lamp_cos_quick", "lamp_l2l1_quick", "rlg", "flat_chat"),
        *("tag_quick", "dlg_quick", "*"),
    ),
)
DEFENSES = ("gaussian_noise", "dpsgd[epsilon=8.0]", "prune", "freeze_embeddings")
BATCHES = (1, 2, 4, 8)
"""Sizes at which the leak is looked at, beside the size that was asked about."""

MOST_BYTES = 6 << 30
"""Of all updates without a defense that lie on disk at once; with one, half as much."""
ANY_LENGTH = 64
"""Tokens of a text at most, where the text is not known."""
ASSUMED_TEXTS = 1000
"""Of a training whose text is not all there: what ε is computed for, as the report states."""

PUBLIC = frozenset({Knowledge.PUBLIC_TEXT, Knowledge.PRIOR, Knowledge.NOISE_SCALE})
OF_TEXT = frozenset({Knowledge.LABELS, Knowledge.LENGTHS})


@dataclass(frozen=True)
class Setting:
    """What goes with an objective."""

    family: Family
    metric: str
    """Of utility."""
    public_corpus: str
    prior: str
    grants: frozenset[Knowledge] = PUBLIC


SETTINGS: Mapping[ObjectiveName, Setting] = {
    "causal-lm": Setting("language-modeling", "perplexity", "builtin:wikitext", "self"),
    "classification": Setting(
        *("classification", "accuracy", "builtin:agnews-lm", "builtin:prior-gpt2"), PUBLIC | OF_TEXT
    ),
    "translation": Setting("translation", "loss", "builtin:iwslt", "builtin:prior-gpt2"),
}


def own_suite(folder: Path, **question: Unpack[AuditQuestion]) -> Suite:
    """Read the text, open the model, and lay out what is measured, all below a folder."""
    objective, shown = question["objective"], question["model"]
    texts = read_texts(question["text"], objective)
    _check_batch(question, texts)
    model = examine(stage_model(question["source"], folder), objective, shown)
    rows = make_rows(question["text"], texts, model, question["utility"])
    base = _task(question, model, rows)
    asked, *others = _sizes(base, len(rows.private), question, model.bytes)
    defended = _smaller(asked, model.bytes)
    defenses = DEFENSES if question["defenses"] is None else question["defenses"]
    order = ORDER if question["attacks"] is None else Order(tuple(question["attacks"]))
    kept = [name for name in defenses if name != NO_DEFENSE]
    plan = _plan(order, asked, defended, others, kept)
    trained = dict.fromkeys((NO_DEFENSE, *defenses)) if rows.test else ()
    return Suite(
        name="audit",
        summary=model.kind,
        tasks=tuple(dict.fromkeys((asked, defended, *others))),
        plan=tuple(plan),
        utility=tuple(Pairing(asked.name, defense=name) for name in trained),
    )


def _check_batch(question: AuditQuestion, texts: Sequence[OwnText]) -> None:
    batch, steps = question["batch_size"], question["local_steps"]
    if len(texts) < batch:
        raise UserError(
            f"{question['text']} has {len(texts)} texts, fewer than a batch of {batch}; give more "
            "texts, or a smaller --batch."
        )
    if batch % steps:
        raise UserError(
            f"A batch of {batch} cannot be divided into {steps} equal steps; give a --batch that "
            "is a multiple of --local-steps."
        )


def _task(question: AuditQuestion, model: OwnModel, rows: OwnRows) -> Task:
    objective, steps = question["objective"], question["local_steps"]
    setting, classifies = SETTINGS[objective], objective == "classification"
    return Task(
        name="audit/own",
        family=setting.family,
        summary="A user's own model and text.",
        corpus=own.stage(rows.private, rows.test),
        model=f"dir:{model.folder}",
        objective=objective,
        batch_size=question["batch_size"],
        grants=setting.grants - (OF_TEXT if question["unknown_text"] else frozenset()),
        prior=setting.prior,
        head=model.head if classifies else "trained",
        labels=rows.classes if classifies else 0,
        tied=model.tied,
        min_tokens=1,
        max_tokens=min(model.longest, ANY_LENGTH) if question["unknown_text"] else rows.longest,
        local_steps=steps,
        learning_rate=question["learning_rate"] if steps > 1 else 1.0,
        public_corpus=setting.public_corpus,
        utility=(setting.metric,),
        training=_training(question["batch_size"], rows),
    )


def _training(batch: int, rows: OwnRows) -> Training:
    """Three epochs over the texts where they train, else one over as many as are assumed."""
    real, texts = bool(rows.test), len(rows.private)
    count = texts if real else max(texts, ASSUMED_TEXTS)
    return Training(
        rows=count - count % batch,
        epochs=3 if real else 1,
        batch_size=batch,
        learning_rate=5e-5,
        validation_rows=max(4, len(rows.test) // 4),
        max_tokens=rows.longest,
    )


# ------------------------------------------------------------------------------------------- plan


def _sizes(base: Task, texts: int, question: AuditQuestion, update_bytes: int) -> Iterator[Task]:
    """The batch size that was asked about, then the others, each with its number of snapshots."""
    free = shutil.disk_usage(base.model.removeprefix("dir:")).free
    most = max(1, min(MOST_BYTES, free // 4) // update_bytes)
    others = [size for size in BATCHES if size % base.local_steps == 0]
    for size in dict.fromkeys((base.batch_size, *(others if question["other_sizes"] else ()))):
        whole = min(texts, max(question["sentences"], size)) // size
        if whole:
            yield replace(base, name=f"audit/b{size}", batch_size=size, snapshots=min(whole, most))


def _smaller(task: Task, update_bytes: int) -> Task:
    """The task to be defended: a part of its snapshots where all would be too large."""
    most = max(1, MOST_BYTES // 2 // update_bytes)
    if task.snapshots <= most:
        return task
    return replace(task, name=f"{task.name}-defended", snapshots=most)


def _plan(
    order: Order, asked: Task, defended: Task, others: Sequence[Task], defenses: Sequence[str]
) -> Iterator[Pairing]:
    """Without a defense first, then with each, then larger batches; then all that with the rest."""
    yield from (Pairing(asked.name, attack) for attack in (*order.quick, *order.baselines))
    yield from (Pairing(defended.name, a, defense) for defense in defenses for a in order.quick)
    yield from (Pairing(task.name, order.quick[0]) for task in others)
    for attack in order.thorough:
        yield from (Pairing(defended.name, attack, defense) for defense in defenses)
        yield Pairing(asked.name, attack)
