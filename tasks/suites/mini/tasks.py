"""The tasks of the `mini` suite: every family, with everything embedded."""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import Federation, Seen, Task, Training

FILM = "Gupta et al., Recovering Private Text in Federated Learning of Language Models, 2022"
LAMP = "Balunović et al., LAMP: Extracting Text from Gradients with Language Model Priors, 2022"
FLAT_CHAT = "FLAT-CHAT, a word recovery attack on federated language model training"
FEDE_VOCAB = "Zhang et al., FedeVocab: private vocabularies in federated text classification, 2022"

ORACLES = {
    Knowledge.FREQUENCIES: "how often each word occurs",
    Knowledge.TYPE_COUNT: "how many different words occur",
}
PUBLIC = frozenset({Knowledge.PUBLIC_TEXT, Knowledge.PRIOR, Knowledge.NOISE_SCALE})
GIVEN_LABELS = PUBLIC | {Knowledge.LABELS, Knowledge.LENGTHS}

NAMES = {"bilstm": "BiLSTM", "distilbert": "DistilBERT"}
WHOSE = {
    "gpt2-finetuned": "A small GPT-2",
    "gpt2-halfway": "A small GPT-2 halfway through its fine-tuning",
    "gpt2-memorized": "A small GPT-2 that was trained on the same sentences before",
    "gpt2-pretrained": "A small GPT-2 that has read nothing of the kind",
    "gpt2-scratch": "A small GPT-2 that has barely begun",
    "gpt2-tied": "A small GPT-2 with tied embeddings",
}
CHECKPOINTS = {
    "gpt2-finetuned": "pretrained on real text, then fine-tuned on public text of the domain",
    "gpt2-halfway": "pretrained on real text, then half of the fine-tuning's steps",
    "gpt2-memorized": "fine-tuned on public text, then trained on the private sentences themselves",
    "gpt2-pretrained": "pretrained on real text: encyclopedia sentences and film reviews",
    "gpt2-scratch": "random weights after a few steps of training",
    "gpt2-tied": "trained on real text and public text of the domain, embeddings tied",
}

AT_HOME = ("wikitext", "enron")
"""Corpora whose public text the GPT-2 models read, but for the pretrained one."""

# Budgets. The papers' epochs and stopping rules; rows and rates are what suits models this small.
FINE_TUNING = Training(960, 2, 16, 1e-3, early_stopping=True)
"""FILM: batches of 16, until the validation loss rises."""
FROM_SCRATCH = replace(FINE_TUNING, learning_rate=3e-3)
TWO_EPOCHS = Training(1920, 2, 16, 5e-4, test_rows=850)
"""LAMP fine-tunes its classifiers for two epochs."""
TRANSLATING = Training(960, 2, 32, 1e-3, early_stopping=True, test_rows=200)
"""FLAT-CHAT: batches of 32 sentences, Adam."""
FEDERATION = {
    "bilstm": Federation(learning_rate=5e-3),
    "distilbert": Federation(learning_rate=1e-3, decay=True),
}
"""FedeVocab: 100 clients, 10 a round, one local epoch, Adam (without weight decay, which would move
what a method holds still). Rounds and batches are what suits forty short texts to a client. The
BiLSTM has the paper's rate; DistilBERT's 5e-5 would move models this small nowhere in 20 rounds."""


def batched(task: Task, *sizes: int) -> list[Task]:
    """The task and its variants with larger batches, `-b<size>`."""
    variants = [
        replace(
            task,
            name=f"{task.name}-b{n}",
            batch_size=n,
            summary=f"{task.summary.rstrip('.')}, {n} to a batch.",
        )
        for n in sizes
    ]
    return [task, *variants]


def language_model(name: str, corpus: str, words: str, model: str = "gpt2-finetuned") -> Task:
    """A GPT-2 client that trains on sentences of one genre."""
    return Task(
        name=f"mini/{name}",
        family="language-modeling",
        summary=f"{WHOSE[model]} learns {words}.",
        corpus=f"builtin:{corpus}",
        model=f"builtin:{model}",
        objective="causal-lm",
        version=2,
        grants=PUBLIC,
        prior="self",
        checkpoint=CHECKPOINTS[model],
        seen=has_seen(corpus, model),
        tied=model == "gpt2-tied",
        min_tokens=6,
        max_tokens=40,
        utility=("perplexity",),
        training=FROM_SCRATCH if model == "gpt2-scratch" else FINE_TUNING,
        papers=(FILM, FLAT_CHAT),
    )


def has_seen(corpus: str, model: str) -> Seen:
    """What a GPT-2 has read of the corpus before the task."""
    if model == "gpt2-memorized":
        return "private"
    return "domain" if corpus in AT_HOME and model != "gpt2-pretrained" else "nothing"


def oracle(task: Task, fact: Knowledge) -> Task:
    """The same task for attacks that are told a fact of the batch which no update shows."""
    return replace(
        task,
        name=f"{task.name}-oracle",
        grants=task.grants | {fact},
        summary=f"{task.summary.rstrip('.')}; an attack may be told {ORACLES[fact]}.",
    )


def classifier(name: str, words: str, metric: str) -> Task:
    """A BERT client at the start of fine-tuning, as LAMP attacks it."""
    return Task(
        name=f"mini/{name}",
        family="classification",
        summary=f"A small BERT learns to judge {words}.",
        corpus=f"builtin:{name}",
        model="builtin:bert-pretrained",
        objective="classification",
        version=2,
        grants=GIVEN_LABELS,
        prior="builtin:prior-gpt2",
        checkpoint="body pretrained on public text, head fresh",
        seen="domain",
        head="fresh",
        labels=2,
        min_tokens=5,
        max_tokens=40,
        utility=(metric,),
        training=TWO_EPOCHS,
        papers=(LAMP,),
    )


def translator(name: str, tokens: int, model: str, checkpoint: str) -> Task:
    """A Transformer client that learns German to English from a batch of so many target tokens."""
    return Task(
        name=f"mini/{name}",
        family="translation",
        summary=(
            f"A small Transformer ({checkpoint}) learns German to English, "
            f"{tokens} target tokens to a batch."
        ),
        corpus="builtin:iwslt",
        model=f"builtin:{model}",
        objective="translation",
        version=2,
        batch_tokens=tokens,
        grants=PUBLIC,
        prior="builtin:gpt2-pretrained",
        checkpoint=checkpoint,
        seen="domain",
        min_tokens=3,
        max_tokens=50,
        utility=("loss", "bleu"),
        training=TRANSLATING,
        papers=(FLAT_CHAT,),
    )


def federated(name: str, labels: int, model: str, batch: int, words: str) -> Task:
    """One of a hundred clients with unequal shares of the labels, in the first round."""
    corpus = name.removesuffix("-distilbert")
    return Task(
        name=f"mini/{name}",
        family="federated",
        summary=f"One of 100 clients sorts {words} with a small {NAMES[model]}.",
        corpus=f"builtin:{corpus}",
        model=f"builtin:{model}",
        objective="classification",
        version=2,
        batch_size=batch,
        grants=GIVEN_LABELS | {Knowledge.PUBLIC_TABLE},
        prior="builtin:prior-gpt2",
        checkpoint="body trained on public text, head fresh",
        seen="domain",
        head="fresh",
        labels=labels,
        min_tokens=5,
        max_tokens=64,
        private_tokens=0 if corpus == "sst2-fl" else 3,
        federation=FEDERATION[model],
        utility=("accuracy_global", "accuracy_local"),
        papers=(FEDE_VOCAB,),
    )


def later(task: Task) -> list[Task]:
    """The task in the middle and in the last of its rounds."""
    return [
        replace(
            task,
            name=f"{task.name}-{when}",
            observed_round=when,
            summary=f"{task.summary.rstrip('.')}, observed in the {when} of its rounds.",
            checkpoint=f"{task.checkpoint}; trained by the clients up to the {when} round",
        )
        for when in ("middle", "last")
    ]


def unseen(task: Task, sentences: int, tokens: int) -> Task:
    """A client of another domain than the attacker's public text, some steps into its training."""
    return replace(
        task,
        name=f"{task.name}-{sentences}x{tokens}",
        summary=(
            f"{task.summary.rstrip('.')}, {sentences} texts of {tokens} tokens to a batch; the "
            "attacker knows text of another domain and the weights from before three steps."
        ),
        batch_size=sentences,
        max_tokens=tokens,
        fit="join",
        public_corpus="builtin:wikitext",
        warmup_steps=3,
        learning_rate=5e-4,
        momentum=0.9,
        checkpoint=f"{task.checkpoint}; then three steps of the client on batches of its own",
        papers=(FLAT_CHAT,),
    )


SHAPES = ((8, 25), (16, 50), (32, 100), (64, 50))
"""FLAT-CHAT's, less the largest: the last one is of a shape that its regressor has not seen."""
UNSEEN = tuple(
    language_model(name, name, f"{words} that it has not seen before", "gpt2-pretrained")
    for name, words in (("imdb", "film reviews"), ("agnews-lm", "news"))
)

UNSEEN_SHAPES = tuple(unseen(task, *shape) for task in UNSEEN for shape in SHAPES)
COUNTED = (
    *batched(language_model("wikitext", "wikitext", "encyclopedia sentences"), 16),
    *batched(language_model("enron", "enron", "business email"), 16),
)
"""FILM compares with an attacker who knows how often each word occurs."""

SCRATCH = "random weights after a few steps of training"
TRAINED = "trained on public pairs"

SIZES = (2, 4, 8, 16, 32, 64, 128)
"""FILM's batches."""
LANGUAGE_MODELING = (
    *batched(language_model("wikitext", "wikitext", "encyclopedia sentences"), *SIZES),
    *batched(language_model("enron", "enron", "business email"), *SIZES),
    *(oracle(task, Knowledge.FREQUENCIES) for task in COUNTED),
    *batched(language_model("imdb", "imdb", "film reviews that it has not seen before"), 16),
    *batched(language_model("agnews-lm", "agnews-lm", "news that it has not seen before"), 16),
    *UNSEEN_SHAPES,
    *(oracle(task, Knowledge.TYPE_COUNT) for task in UNSEEN_SHAPES),
    language_model("wikitext-halfway", "wikitext", "encyclopedia sentences", "gpt2-halfway"),
    *batched(
        language_model(
            "wikitext-pretrained", "wikitext", "encyclopedia sentences", "gpt2-pretrained"
        ),
        16,
    ),
    *batched(
        language_model(
            "wikitext-memorized", "wikitext", "encyclopedia sentences", "gpt2-memorized"
        ),
        16,
    ),
    language_model("wikitext-scratch", "wikitext", "encyclopedia sentences", "gpt2-scratch"),
    language_model("wikitext-tied", "wikitext", "encyclopedia sentences", "gpt2-tied"),
    language_model("enron-halfway", "enron", "business email", "gpt2-halfway"),
    *batched(language_model("enron-memorized", "enron", "business email", "gpt2-memorized"), 16),
    language_model("enron-pretrained", "enron", "business email", "gpt2-pretrained"),
    language_model("enron-scratch", "enron", "business email", "gpt2-scratch"),
)
COLA = classifier("cola", "whether a sentence is acceptable", "mcc")
CLASSIFICATION = (
    *batched(COLA, 2, 4, 8, 16),
    replace(
        COLA,
        name="mini/cola-finetuned",
        summary="A small BERT that already judges acceptability goes on learning.",
        model="builtin:bert-cola",
        head="trained",
        checkpoint="fine-tuned on public sentences",
    ),
    replace(
        COLA,
        name="mini/cola-float64",
        precision="float64",
        summary="A small BERT learns to judge acceptability in double precision.",
    ),
    replace(
        COLA,
        name="mini/cola-dropout",
        mode="train",
        summary="A small BERT learns to judge acceptability, its dropout left on.",
    ),
    replace(
        COLA,
        name="mini/cola-fedavg",
        batch_size=4,
        local_steps=4,
        learning_rate=5e-5,
        summary="A small BERT learns to judge acceptability and shares four local steps at once.",
    ),
    *batched(classifier("sst2", "the mood of short phrases", "accuracy"), 2, 4, 8),
    *batched(classifier("rotten-tomatoes", "film reviews", "accuracy"), 2, 4, 8),
)
TRANSLATORS = (
    translator("iwslt", 100, "marian-scratch", SCRATCH),
    translator("iwslt-t500", 500, "marian-scratch", SCRATCH),
    translator("iwslt-t1000", 1000, "marian-scratch", SCRATCH),
    translator("iwslt-t1500", 1500, "marian-scratch", SCRATCH),
    translator("iwslt-t2000", 2000, "marian-scratch", SCRATCH),
    translator("iwslt-finetuned", 100, "marian-finetuned", TRAINED),
    translator("iwslt-finetuned-t500", 500, "marian-finetuned", TRAINED),
    translator("iwslt-finetuned-t1000", 1000, "marian-finetuned", TRAINED),
    translator("iwslt-finetuned-t1500", 1500, "marian-finetuned", TRAINED),
    translator("iwslt-finetuned-t2000", 2000, "marian-finetuned", TRAINED),
)
TRAINING_BATCH = replace(
    TRANSLATORS[5],
    name="mini/iwslt-finetuned-b32",
    batch_tokens=None,
    batch_size=32,
    summary=f"A small Transformer ({TRAINED}) learns German to English, 32 sentences to a batch.",
)
"""As many sentences as utility is trained with."""
TRANSLATION = (
    *TRANSLATORS,
    TRAINING_BATCH,
    *(oracle(task, Knowledge.TYPE_COUNT) for task in TRANSLATORS),
)
AGNEWS_FL = batched(federated("agnews-fl", 4, "bilstm", 4, "news by topic"), 1, 2, 8, 16, 32, 64)
AGNEWS_FL_DISTILBERT = batched(
    federated("agnews-fl-distilbert", 4, "distilbert", 4, "news by topic"), 1, 2, 8, 16, 32, 64
)
FEDERATED = (
    *AGNEWS_FL,
    federated("20news-fl", 20, "bilstm", 4, "newsgroup posts by topic"),
    federated("sst2-fl", 2, "bilstm", 8, "phrases by mood"),
    *AGNEWS_FL_DISTILBERT,
    federated("20news-fl-distilbert", 20, "distilbert", 4, "newsgroup posts by topic"),
    federated("sst2-fl-distilbert", 2, "distilbert", 8, "phrases by mood"),
    *later(AGNEWS_FL[1]),
    *later(AGNEWS_FL_DISTILBERT[1]),
)


SLOW = ("mini/cola", "mini/wikitext-pretrained", "mini/iwslt", "mini/rotten-tomatoes-b4")
"""Single sentences, or few, on which some attacks of the default plan take more than a second."""


SCARCE = {"64x50": 8, "32x100": 8, "b128": 8, "t2000": 8, "fl-b32": 8, "fl-b64": 6}
"""Shapes so large that a corpus has text for so few batches only."""


def sampled(task: Task) -> Task:
    """With as many snapshots as its attacks leave time for: 32, or 16 where they take seconds."""
    large = task.batch_size > 4 or (task.batch_tokens or 0) > 100
    slow = large or task.name in SLOW
    shape = task.name.removesuffix("-oracle").replace("-distilbert", "")
    few = next((count for end, count in SCARCE.items() if shape.endswith(f"-{end}")), 16)
    return replace(task, snapshots=few if slow else 32)


TASKS = tuple(map(sampled, (*LANGUAGE_MODELING, *CLASSIFICATION, *TRANSLATION, *FEDERATED)))
