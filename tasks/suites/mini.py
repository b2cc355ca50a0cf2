"""The `mini` suite: every family, everything embedded, minutes on two cores."""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import Pairing, Suite, Task, Training

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
    "gpt2-pretrained": "A small GPT-2 that has read little of the kind",
    "gpt2-scratch": "A small GPT-2 that has barely begun",
    "gpt2-tied": "A small GPT-2 with tied embeddings",
}
CHECKPOINTS = {
    "gpt2-finetuned": "pretrained on public text, then fine-tuned on public text of the domain",
    "gpt2-halfway": "pretrained on public text, then half of the fine-tuning's steps",
    "gpt2-pretrained": "pretrained on public text, mostly of other domains",
    "gpt2-scratch": "random weights after a few steps of training",
    "gpt2-tied": "trained on public text of the domain, input and output embeddings tied",
}

# Budgets. The papers' epochs and stopping rules; rows and rates are what suits models this small.
FINE_TUNING = Training(960, 2, 16, 1e-3, early_stopping=True)
"""FILM: batches of 16, until the validation loss rises."""
FROM_SCRATCH = replace(FINE_TUNING, learning_rate=3e-3)
TWO_EPOCHS = Training(1920, 2, 16, 5e-4, test_rows=850)
"""LAMP fine-tunes its classifiers for two epochs."""
TRANSLATING = Training(960, 2, 32, 1e-3, early_stopping=True, test_rows=200)
"""FLAT-CHAT: batches of 32 sentences, Adam."""
UTILITY = (
    *(Pairing("wikitext-pretrained", defense=d) for d in ("none", "freeze_embeddings", "prune")),
    *(Pairing("wikitext-pretrained", defense=d) for d in ("gaussian_noise", "dpsgd")),
    *(Pairing("cola", defense=d) for d in ("none", "gaussian_noise")),
    *(Pairing("iwslt-finetuned", defense=d) for d in ("none", "freeze_output")),
)
"""What `make leaderboard` has time to cost."""


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
        grants=PUBLIC,
        prior="self",
        checkpoint=CHECKPOINTS[model],
        tied=model == "gpt2-tied",
        min_tokens=6,
        max_tokens=40,
        utility=("perplexity",),
        training=FROM_SCRATCH if model == "gpt2-scratch" else FINE_TUNING,
        papers=(FILM, FLAT_CHAT),
    )


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
        grants=GIVEN_LABELS,
        prior="builtin:prior-gpt2",
        checkpoint="body pretrained on public text, head fresh",
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
        batch_tokens=tokens,
        grants=PUBLIC,
        prior="builtin:gpt2-pretrained",
        checkpoint=checkpoint,
        min_tokens=3,
        max_tokens=50,
        utility=("loss", "bleu"),
        training=TRANSLATING,
        papers=(FLAT_CHAT,),
    )


def federated(name: str, labels: int, model: str, batch: int, words: str) -> Task:
    """One of a hundred clients with unequal shares of the labels."""
    return Task(
        name=f"mini/{name}",
        family="federated",
        summary=f"One of 100 clients sorts {words} with a small {NAMES[model]}.",
        corpus=f"builtin:{name.removesuffix('-distilbert')}",
        model=f"builtin:{model}",
        objective="classification",
        batch_size=batch,
        grants=GIVEN_LABELS,
        prior="builtin:prior-gpt2",
        checkpoint="body trained on public text, head fresh",
        head="fresh",
        labels=labels,
        min_tokens=5,
        max_tokens=64,
        clients=100,
        dirichlet_alpha=1.0,
        utility=("accuracy_global", "accuracy_local"),
        papers=(FEDE_VOCAB,),
    )


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
    language_model("wikitext-pretrained", "wikitext", "encyclopedia sentences", "gpt2-pretrained"),
    language_model("wikitext-scratch", "wikitext", "encyclopedia sentences", "gpt2-scratch"),
    language_model("wikitext-tied", "wikitext", "encyclopedia sentences", "gpt2-tied"),
    language_model("enron-halfway", "enron", "business email", "gpt2-halfway"),
    language_model("enron-pretrained", "enron", "business email", "gpt2-pretrained"),
    language_model("enron-scratch", "enron", "business email", "gpt2-scratch"),
)
COLA = classifier("cola", "whether a sentence is acceptable", "mcc")
CLASSIFICATION = (
    *batched(COLA, 2, 4, 8),
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
TRANSLATION = (*TRANSLATORS, *(oracle(task, Knowledge.TYPE_COUNT) for task in TRANSLATORS))
FEDERATED = (
    federated("agnews-fl", 4, "bilstm", 4, "news by topic"),
    federated("20news-fl", 20, "bilstm", 4, "newsgroup posts by topic"),
    federated("sst2-fl", 2, "bilstm", 8, "phrases by mood"),
    federated("agnews-fl-distilbert", 4, "distilbert", 4, "news by topic"),
    federated("20news-fl-distilbert", 20, "distilbert", 4, "newsgroup posts by topic"),
    federated("sst2-fl-distilbert", 2, "distilbert", 8, "phrases by mood"),
)


def pairings(
    tasks: tuple[str, ...], attacks: tuple[str, ...], defenses: tuple[str, ...] = ("none",)
) -> tuple[Pairing, ...]:
    """Every attack on every task under every defense."""
    return tuple(Pairing(t, a, d) for t in tasks for d in defenses for a in attacks)


MATCHING = ("dlg_quick", "tag_quick", "lamp_cos_quick", "lamp_l2l1_quick")
CHECKPOINTED = tuple(
    f"{corpus}-{state}" for corpus in ("wikitext", "enron") for state in ("pretrained", "scratch")
)
SINGLE = ("wikitext", "enron", "imdb", "agnews-lm", "wikitext-tied", *CHECKPOINTED)
FEW = ("wikitext-b4", "enron-b4")
EXACT = (
    *("cola", "cola-b4", "cola-finetuned", "cola-fedavg", "cola-dropout", "sst2", "sst2-b4"),
    *("rotten-tomatoes", "rotten-tomatoes-b4", "sst2-fl-distilbert", *SINGLE, *FEW),
)
TASKS = (*LANGUAGE_MODELING, *CLASSIFICATION, *TRANSLATION, *FEDERATED)
LEFT_OUT = (
    *("-b2", "-b8", "-b16", "-b32", "-b64", "-b128", "-t1000", "-t1500", "-16x50", "-64x50"),
    *("-halfway", "-float64", "-oracle"),
)
DEFAULT_TASKS = tuple(task.name for task in TASKS if not task.name.endswith(LEFT_OUT))
"""Tasks of the default plan: of each row of sizes the ends, of each row of checkpoints two."""
DEFENSES = (
    *("prune", "prune[ratio=0.9999]", "mask", "gaussian_noise", "dpsgd"),
    *("freeze_embeddings", "freeze_output", "freeze_both"),
)
PLAN = (
    *pairings(DEFAULT_TASKS, ("prior_only", "bag_of_words")),
    *pairings(("cola", "wikitext", "iwslt", "agnews-fl"), ("random",)),
    *pairings(("cola",), MATCHING),
    *pairings(("wikitext", "enron"), ("film",)),
    *pairings((*SINGLE, *FEW), ("film_beam_only",)),
    *pairings(("wikitext-oracle", "enron-oracle"), ("prior_only", "film_oracle_frequency")),
    *pairings(tuple(n for n in DEFAULT_TASKS if "iwslt" in n), ("flat_chat",)),
    *pairings(("iwslt",), ("flat_chat_abs",)),
    *pairings(("iwslt-oracle",), ("prior_only", "flat_chat_oracle")),
    *pairings(("iwslt",), ("rlg",)),
    *pairings(("*-8x25", "*-32x100"), ("flat_chat",)),
    *pairings(EXACT, ("dager",)),
    *pairings(("cola",), ("prior_only", "bag_of_words", "dager"), DEFENSES),
    *pairings(("cola",), ("lamp_cos_quick",), ("prune", "gaussian_noise")),
    *pairings(
        ("wikitext-pretrained",),
        ("prior_only", "bag_of_words", "film_beam_only", "dager"),
        DEFENSES,
    ),
    *pairings(("iwslt-finetuned",), ("bag_of_words",), DEFENSES),
    *pairings(("iwslt-finetuned",), ("flat_chat",), ("prune", "dpsgd", "freeze_embeddings")),
    *pairings(("wikitext-tied",), ("flat_chat",)),
)
"""Baselines; each family of attacks where its paper has it; defenses on one task of each objective,
against the attacks that may be the strongest there."""

SUITE = Suite(
    name="mini",
    summary="Every task family on text and models made for this project: nothing to download.",
    tasks=TASKS,
    plan=PLAN,
    utility=UTILITY,
)
