"""The `open` suite: real corpora and real pretrained weights, without a model hub.

`make open` installs the weights; the corpora are files in the folder that LEAKBOARD_DATA names.
Lengths follow the papers. LAMP draws training sentences of any length: the middle half of CoLA has
5 to 9 words, of SST-2 3 to 13 and of Rotten Tomatoes 14 to 27, and a limit of 64 tokens keeps all
but a handful. FILM's search ends at 40 tokens, to which the two that bound a sentence are added.
"""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import Federation, Pairing, Suite, Task, Training
from tasks.suites.mini.tasks import FEDE_VOCAB, FILM, LAMP, batched, oracle, unseen

PUBLIC = frozenset({Knowledge.PUBLIC_TEXT, Knowledge.PRIOR, Knowledge.NOISE_SCALE})
GIVEN_LABELS = PUBLIC | {Knowledge.LABELS, Knowledge.LENGTHS}

CLASSIFIER = Task(
    name="open/classifier",
    family="classification",
    summary="",
    corpus="",
    model="package:minilm",
    objective="classification",
    version=2,
    snapshots=10,
    grants=GIVEN_LABELS,
    prior="package:smollm2",
    checkpoint=(
        "all-MiniLM-L6-v2 (6 layers, width 384, uncased) as published for sentence similarity; "
        "pooler as published, classification head fresh"
    ),
    seen="unknown",
    head="fresh",
    head_seed=0,
    labels=2,
    mode="eval",
    precision="float32",
    min_tokens=4,
    max_tokens=64,
    training=Training(2400, 2, 32, 5e-5, test_rows=600),  # LAMP's two epochs
    papers=(LAMP,),
)
"""What the classification tasks share: LAMP's setting, a model at the start of fine-tuning."""

LANGUAGE_MODEL = Task(
    name="open/language-model",
    family="language-modeling",
    summary="",
    corpus="",
    model="package:smollm2",
    objective="causal-lm",
    version=2,
    snapshots=10,
    grants=PUBLIC,
    prior="self",
    checkpoint=(
        "SmolLM2-135M-Instruct (30 layers, width 576, rotary positions, tied embeddings) as "
        "published in 4 bits, expanded to float32; not tuned on the corpus"
    ),
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
"""What the language-modeling tasks share: FILM's setting on a modern decoder."""


def classifier(name: str, words: str, metric: str) -> Task:
    """MiniLM learns to judge the sentences of a corpus."""
    return replace(
        CLASSIFIER,
        name=f"open/{name}",
        summary=f"MiniLM learns to judge {words}.",
        corpus=f"data:{name}",
        utility=(metric,),
    )


def language_model(name: str, words: str) -> Task:
    """SmolLM2 goes on learning from the sentences of a corpus."""
    return replace(
        LANGUAGE_MODEL,
        name=f"open/{name}",
        summary=f"SmolLM2 goes on learning from {words}.",
        corpus=f"data:{name}",
    )


def unseen_domain(name: str, corpus: str, words: str, sentences: int, tokens: int) -> Task:
    """SmolLM2 learns texts that the attacker, who knows WikiText, has seen nothing like."""
    task = replace(language_model(name, words), corpus=f"data:{corpus}")
    return replace(
        unseen(task, sentences, tokens),
        fit="cut",
        public_corpus="data:wikitext",
        snapshots=4 if sentences * tokens < 3200 else 2,  # half a gigabyte each
    )


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
"""FedeVocab's federation in a fifth of its rounds, for two cores; a client has about as many rows
as the paper's clients have of 20 Newsgroups."""
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
        checkpoint=CLASSIFIER.checkpoint,
        federation=replace(FEDERATION, learning_rate=5e-5, decay=True, batch_size=16),
    )
    return [*batched(bilstm, 4), *batched(minilm, 4)]


SHAPES = ((8, 25), (32, 100))
"""Two of FLAT-CHAT's batch shapes, texts times tokens."""

UNSEEN = (
    *(unseen_domain("imdb", "imdb", "film reviews", *shape) for shape in SHAPES),
    *(unseen_domain("agnews-lm", "agnews", "news", *shape) for shape in SHAPES),
)

SUITE = Suite(
    name="open",
    summary="Real corpora and published weights that install as packages: CPU hours, not a GPU.",
    tasks=(
        *batched(classifier("cola", "whether a sentence is acceptable", "mcc"), 2, 4, 8),
        *batched(classifier("sst2", "the mood of phrases from film reviews", "accuracy"), 2, 4, 8),
        *batched(classifier("rotten-tomatoes", "film reviews", "accuracy"), 2, 4, 8),
        *batched(language_model("wikitext", "encyclopedia sentences"), 4, 16),
        *batched(language_model("enron", "business email"), 4, 16),
        *UNSEEN,
        *(oracle(task, Knowledge.TYPE_COUNT) for task in UNSEEN),
        *federated("agnews", 4, "news by topic"),
        *federated("20news", 20, "newsgroup posts by topic"),
    ),
    plan=(Pairing("*", "random"), Pairing("*", "prior_only"), Pairing("*", "bag_of_words")),
)
