"""The `paper` suite: each paper's own models, corpora, batch sizes and sample counts, for a GPU.

Weights and corpora come from the hub and are pinned at the first download (tasks/hub_lock.py).
Enron's messages and the IWSLT pairs are files in the folder that LEAKBOARD_DATA names, since the
hub has them only as programs. Word vectors of width 300 are in no package: the BiLSTM has GloVe's
of width 50. How to run it: docs/gpu.md.
"""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge
from benchmark.suites import NO_DEFENSE, Federation, Footprint, Pairing, Suite, Task, Training
from tasks.suites.mini.plan import pairings
from tasks.suites.mini.tasks import FEDE_VOCAB, FILM, FLAT_CHAT, LAMP, batched, oracle
from tasks.suites.open.classification import GIVEN_LABELS, PUBLIC

GPT2 = "hub:openai-community/gpt2@locked"
WIKITEXT = "hub:Salesforce/wikitext/wikitext-103-raw-v1@locked"

ENCODERS = {
    "bert": ("google-bert/bert-base-uncased", "BERT base"),
    "bert-large": ("google-bert/bert-large-uncased", "BERT large"),
    "tinybert": ("huawei-noah/TinyBERT_General_6L_768D", "TinyBERT-6"),
}
"""Repository and name by the part of a task's name."""
CLASSIFIED = {
    "cola": ("nyu-mll/glue/cola", "CoLA", "mcc"),
    "sst2": ("stanfordnlp/sst2", "SST-2", "accuracy"),
    "rotten-tomatoes": (
        "cornell-movie-review-data/rotten_tomatoes",
        "rotten-tomatoes",
        "accuracy",
    ),
}
"""Data set, suffix of the fine-tuned BERT on the hub, and metric of utility."""

FOOTPRINTS = {
    GPT2: Footprint(124, 548),
    "hub:google-bert/bert-base-uncased@locked": Footprint(110, 440),
    "hub:google-bert/bert-large-uncased@locked": Footprint(335, 1340),
    "hub:huawei-noah/TinyBERT_General_6L_768D@locked": Footprint(67, 268),
    "hub:distilbert/distilbert-base-uncased@locked": Footprint(66, 268),
    "package:glove-bilstm": Footprint(3, 0),
    "trained:marian-iwslt-paper": Footprint(70, 0),
    **{
        f"hub:textattack/bert-base-uncased-{suffix}@locked": Footprint(110, 438)
        for _, suffix, _ in CLASSIFIED.values()
    },
}
"""Million parameters and megabytes to download."""


def language_model(name: str, corpus: str, words: str) -> Task:
    """FILM: pretrained GPT-2 goes on learning from a corpus."""
    return Task(
        name=f"paper/{name}",
        family="language-modeling",
        summary=f"GPT-2 goes on learning from {words}.",
        corpus=corpus,
        model=GPT2,
        objective="causal-lm",
        snapshots=100,
        grants=PUBLIC,
        prior="self",
        checkpoint="GPT-2 small as published",
        tied=True,
        min_tokens=8,
        max_tokens=42,
        utility=("perplexity",),
        training=Training(20_000, 1, 16, 1e-5, early_stopping=True, test_rows=2000),
        papers=(FILM,),
    )


def sequences(task: Task, count: int = 100) -> Task:
    """With so many private sequences in all batches together, as LAMP has it, at least ten."""
    return replace(task, snapshots=max(10, count // task.batch_size))


def classifier(corpus: str, model: str) -> Task:
    """LAMP: an encoder at the start of fine-tuning."""
    dataset, _, metric = CLASSIFIED[corpus]
    repository, title = ENCODERS[model]
    return Task(
        name=f"paper/{corpus}-{model}",
        family="classification",
        summary=f"{title} learns to judge sentences of {corpus}.",
        corpus=f"hub:{dataset}@locked",
        model=f"hub:{repository}@locked",
        objective="classification",
        grants=GIVEN_LABELS,
        prior=GPT2,
        checkpoint=f"{title} as published, classification head fresh",
        head="fresh",
        labels=2,
        min_tokens=4,
        max_tokens=64,
        utility=(metric,),
        training=Training(8_000, 2, 32, 5e-5, test_rows=1000),
        papers=(LAMP,),
    )


def finetuned(corpus: str) -> Task:
    """LAMP: a BERT that was fine-tuned on the corpus before."""
    task = classifier(corpus, "bert")
    return replace(
        task,
        name=f"paper/{corpus}-bert-finetuned",
        summary=f"BERT base, fine-tuned on {corpus}, goes on learning from it.",
        model=f"hub:textattack/bert-base-uncased-{CLASSIFIED[corpus][1]}@locked",
        head="trained",
        checkpoint="fine-tuned by others on the whole training split",
        seen="private",
    )


def translator(tokens: int) -> Task:
    """FLAT-CHAT: a Transformer with 16,594 types learns from so many target tokens."""
    return Task(
        name=f"paper/iwslt-t{tokens}",
        family="translation",
        summary=f"A Transformer learns German to English, {tokens} target tokens to a batch.",
        corpus="data:iwslt",
        model="trained:marian-iwslt-paper",
        objective="translation",
        batch_tokens=tokens,
        snapshots=10,
        grants=PUBLIC,
        prior=GPT2,
        checkpoint="6 + 6 layers of width 512, 16,594 types, trained on the public pairs",
        min_tokens=3,
        max_tokens=128,
        utility=("loss", "bleu"),
        training=Training(9_600, 2, 32, 5e-4, early_stopping=True, test_rows=1000),
        papers=(FLAT_CHAT,),
    )


FEDERATED_MODELS = {
    "bilstm": ("package:glove-bilstm", "a BiLSTM on GloVe vectors", 5e-3, False),
    "distilbert": ("hub:distilbert/distilbert-base-uncased@locked", "DistilBERT", 5e-5, True),
    "bert": ("hub:google-bert/bert-base-uncased@locked", "BERT base", 5e-5, True),
}
"""Model, words, rate of the clients, and whether the rate falls."""
FEDERATED_CORPORA = {
    "agnews": ("hub:fancyzhx/ag_news@locked", 4, 64, 128, 1200),
    "20news": ("hub:SetFit/20_newsgroups@locked", 20, 32, 256, 113),
    "sst2": ("hub:stanfordnlp/sst2@locked", 2, 256, 32, 673),
}
"""Corpus, labels, batch, tokens and rows of a client."""


def federated(corpus: str, model: str) -> Task:
    """FedeVocab: one of a hundred clients in the first of a hundred rounds."""
    reference, labels, batch, tokens, rows = FEDERATED_CORPORA[corpus]
    weights, words, rate, decay = FEDERATED_MODELS[model]
    federation = Federation(
        rounds=100,
        batch_size=batch,
        learning_rate=rate,
        decay=decay,
        local_rows=rows,
        max_tokens=tokens,
        validation_rows=500,
        test_rows=5000,
        global_rows=1000,
    )
    return Task(
        name=f"paper/{corpus}-fl-{model}",
        family="federated",
        summary=f"One of 100 clients sorts {corpus} with {words}.",
        corpus=reference,
        model=weights,
        objective="classification",
        snapshots=32,
        batch_size=4,
        grants=GIVEN_LABELS | {Knowledge.PUBLIC_TABLE},
        prior=GPT2,
        checkpoint="as published, head fresh",
        head="fresh",
        labels=labels,
        min_tokens=5,
        max_tokens=48,
        private_tokens=0 if corpus == "sst2" else 3,
        federation=federation,
        utility=("accuracy_global", "accuracy_local"),
        papers=(FEDE_VOCAB,),
    )


LANGUAGE_MODELING = (
    *batched(
        language_model("wikitext", WIKITEXT, "encyclopedia sentences"), 2, 4, 8, 16, 32, 64, 128
    ),
    *batched(language_model("enron", "data:enron", "business email"), 2, 4, 8, 16, 32, 64, 128),
)
CLASSIFICATION = tuple(
    sequences(task)
    for corpus in CLASSIFIED
    for first in (*(classifier(corpus, model) for model in ENCODERS), finetuned(corpus))
    for task in batched(first, 2, 4)
)
TRANSLATION = tuple(map(translator, (100, 500, 1000, 1500, 2000)))
FEDERATED = tuple(federated(c, m) for c in FEDERATED_CORPORA for m in FEDERATED_MODELS)
TASKS = (
    *(sequences(task, 1000) for task in LANGUAGE_MODELING),
    *CLASSIFICATION,
    *TRANSLATION,
    *(oracle(task, Knowledge.TYPE_COUNT) for task in TRANSLATION),
    *FEDERATED,
)

BASELINES = ("random", "prior_only")
MATCHING = ("dlg", "tag", "lamp_cos", "lamp_l2l1")
NOISE = tuple(f"gaussian_noise[sigma={sigma}]" for sigma in (0.001, 0.002, 0.005, 0.01))
PRUNING = tuple(f"prune[ratio={ratio}]" for ratio in (0.9, 0.99, 0.999))
PRIVATE = tuple(f"dpsgd[epsilon={epsilon}]" for epsilon in (1.0, 8.0, 64.0))
FREEZING = ("freeze_embeddings", "freeze_output", "freeze_both")
METHODS = ("fedavg", "fedprox", "lg_fedavg", "fed_recon", "fede_vocab", "local_only")


def named(tasks: tuple[Task, ...]) -> tuple[str, ...]:
    """Short names of tasks, as a plan has them."""
    return tuple(task.name.partition("/")[2] for task in tasks)


PLAN = (
    *pairings(named(CLASSIFICATION), (*BASELINES, *MATCHING, "dager_paper", "dager")),
    *pairings(named(LANGUAGE_MODELING), (*BASELINES, "bag_of_words", "film_paper", "dager_paper")),
    *pairings(named(TRANSLATION), (*BASELINES, "rlg", "flat_chat_abs", "flat_chat_paper")),
    *pairings(
        tuple(f"iwslt-t{n}-oracle" for n in (100, 500, 1000, 1500, 2000)), ("flat_chat_oracle",)
    ),
    *pairings(("cola-bert",), MATCHING, NOISE),
    *pairings(("wikitext-b16", "enron-b16"), ("film_paper",), (*PRUNING, *PRIVATE, *FREEZING)),
    *pairings(named(FEDERATED), ("prior_only", "dlg", "table_alignment"), METHODS),
)
UTILITY = (
    *(Pairing("cola-bert", defense=d) for d in (NO_DEFENSE, *NOISE)),
    *(Pairing("wikitext-b16", defense=d) for d in (NO_DEFENSE, *PRUNING, *PRIVATE, *FREEZING)),
    *(Pairing(name, defense=d) for name in named(FEDERATED) for d in METHODS),
)

SUITE = Suite(
    name="paper",
    summary="The papers' own models, corpora and sample counts, from the hub: for a GPU.",
    tasks=TASKS,
    plan=PLAN,
    utility=UTILITY,
    panels={
        "causal-lm": ("prior_only", "bag_of_words", "film_paper", "dager_paper"),
        "classification": ("prior_only", "lamp_cos", "lamp_l2l1", "dager_paper"),
        "translation": ("prior_only", "flat_chat_paper"),
    },
    footprints=FOOTPRINTS,
)
