"""FedeVocab's setting on real text: one of a hundred clients sorts texts by topic."""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import Federation, Task
from tasks.suites.mini.tasks import FEDE_VOCAB, batched
from tasks.suites.open.classification import CHECKPOINTS, GIVEN_LABELS

FEDERATION = Federation(
    rounds=20,
    batch_size=32,
    learning_rate=5e-3,
    local_rows=100,
    validation_rows=200,
    test_rows=2000,
    global_rows=200,
    checks=5,
    max_tokens=64,
)
"""FedeVocab's federation in a fifth of its rounds, for two cores. A client has at most as many rows
as the paper's clients have of 20 Newsgroups; of the local corpora, a third of which is private, 27
of AG News and 13 of 20 Newsgroups."""
TRANSFORMER = replace(
    FEDERATION,
    learning_rate=5e-4,
    decay=True,
    batch_size=16,
    max_tokens=32,
    validation_rows=100,
    test_rows=1000,
    global_rows=50,
)
"""Fewer tokens and test rows, since MiniLM takes thirty times as long. The rate is a guess: ten
times the paper's, whose clients take a multiple of our steps."""
FEDERATED = Task(
    name="open/federated",
    family="federated",
    summary="",
    corpus="",
    model="package:glove-bilstm",
    objective="classification",
    snapshots=8,
    grants=GIVEN_LABELS | {Knowledge.PUBLIC_TABLE},
    prior="package:smollm2",
    checkpoint="word vectors of GloVe 6B (width 50, 20,000 words), all else fresh",
    head="fresh",
    min_tokens=5,
    max_tokens=48,
    private_tokens=3,
    federation=FEDERATION,
    utility=("accuracy_global", "accuracy_local"),
    papers=(FEDE_VOCAB,),
)
"""What the federated tasks share: one of a hundred clients in the first round."""


def federated(name: str, labels: int, words: str) -> list[Task]:
    """A BiLSTM on GloVe vectors and MiniLM sort the texts of a corpus."""
    bilstm = replace(
        FEDERATED,
        name=f"open/{name}-fl",
        corpus=f"data:{name}",
        labels=labels,
        summary=f"One of 100 clients sorts {words} with a BiLSTM on GloVe vectors.",
    )
    minilm = replace(
        bilstm,
        name=f"{bilstm.name}-minilm",
        model="package:minilm",
        summary=f"One of 100 clients sorts {words} with MiniLM.",
        checkpoint=CHECKPOINTS["minilm"],
        federation=TRANSFORMER,
    )
    return [*batched(bilstm, 4), *batched(minilm, 4)]


FEDERATED_TASKS = (
    *federated("agnews", 4, "news by topic"),
    *federated("20news", 20, "newsgroup posts by topic"),
)
