"""FILM's and FLAT-CHAT's settings on a modern decoder: SmolLM2 goes on learning from text.

FILM's search ends at 40 tokens, to which the two that bound a sentence are added.
"""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import Task, Training
from tasks.suites.mini.tasks import FILM, batched, oracle, unseen
from tasks.suites.open.classification import PUBLIC

SIZES = (4, 16, 64)

PUBLISHED = (
    "SmolLM2-135M-Instruct (30 layers, width 576, rotary positions, tied embeddings) as "
    "published in 4 bits, expanded to float32"
)
LANGUAGE_MODEL = Task(
    name="open/language-model",
    family="language-modeling",
    summary="",
    corpus="",
    model="package:smollm2",
    objective="causal-lm",
    version=3,
    grants=PUBLIC,
    prior="self",
    checkpoint=f"{PUBLISHED}; not tuned on the corpus",
    seen="unknown",
    mode="eval",
    precision="float32",
    tied=True,
    min_tokens=8,
    max_tokens=42,
    utility=("perplexity",),
    training=Training(960, 1, 16, 1e-5, early_stopping=True),  # FILM's rate, batch and rule
    papers=(FILM,),
)
"""What the language-modeling tasks share."""


def language_model(name: str, corpus: str, words: str) -> Task:
    """SmolLM2 goes on learning from the sentences of a corpus."""
    return replace(
        LANGUAGE_MODEL,
        name=f"open/{name}",
        summary=f"SmolLM2 goes on learning from {words}.",
        corpus=f"data:{corpus}",
        fit="cut" if corpus in ("imdb", "agnews") else "drop",
    )


def finetuned(task: Task) -> Task:
    """The same after a short fine-tuning on public text of the corpus."""
    return replace(
        task,
        name=f"{task.name}-finetuned",
        summary=f"{task.summary.rstrip('.')}, of which it has read public ones.",
        model=f"trained:smollm2-{task.corpus.partition(':')[2]}",
        checkpoint=f"{PUBLISHED}; then fine-tuned for a short while on public text of the corpus",
    )


def unseen_domain(task: Task, sentences: int, tokens: int) -> Task:
    """SmolLM2 learns texts that the attacker, who knows WikiText, has seen nothing like."""
    return replace(
        unseen(task, sentences, tokens),
        fit="cut",
        public_corpus="data:wikitext",
        snapshots=10,
    )


def sampled(task: Task) -> Task:
    """With 12 snapshots of single sentences and 10 of larger batches: half a gigabyte each."""
    return replace(task, snapshots=12 if task.batch_size == 1 else 10)


TEXTS = (
    language_model("wikitext", "wikitext", "encyclopedia sentences"),
    language_model("enron", "enron", "sentences of business email"),
    language_model("imdb", "imdb", "beginnings of film reviews"),
    language_model("agnews-lm", "agnews", "news"),
)
SHAPES = ((8, 25), (32, 100))
"""Two of FLAT-CHAT's batch shapes, texts times tokens."""
UNSEEN = tuple(
    unseen_domain(replace(task, summary=task.summary.replace("beginnings of ", "")), *shape)
    for task in TEXTS[2:]
    for shape in SHAPES
)
LANGUAGE_MODELING = (
    *(
        sampled(variant)
        for text in TEXTS
        for task in (text, finetuned(text))
        for variant in batched(task, *SIZES)
    ),
    *UNSEEN,
    *(oracle(task, Knowledge.TYPE_COUNT) for task in UNSEEN),
)
