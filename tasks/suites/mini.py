"""The `mini` suite: every family, everything embedded, minutes on two cores."""

from __future__ import annotations

from dataclasses import replace

from benchmark.spec import Knowledge, Pairing, Suite, Task

FILM = "Gupta et al., Recovering Private Text in Federated Learning of Language Models, 2022"
LAMP = "Balunović et al., LAMP: Extracting Text from Gradients with Language Model Priors, 2022"
FLAT_CHAT = "FLAT-CHAT, a word recovery attack on federated language model training"
FEDE_VOCAB = "Zhang et al., FedeVocab: private vocabularies in federated text classification, 2022"

PUBLIC = frozenset({Knowledge.PUBLIC_TEXT, Knowledge.PRIOR, Knowledge.NOISE_SCALE})
GIVEN_LABELS = PUBLIC | {Knowledge.LABELS, Knowledge.LENGTHS}

NAMES = {"bilstm": "BiLSTM", "distilbert": "DistilBERT"}
WHOSE = {
    "gpt2-finetuned": "A small GPT-2",
    "gpt2-pretrained": "A small GPT-2 that has read little of the kind",
    "gpt2-scratch": "A small GPT-2 that has barely begun",
    "gpt2-tied": "A small GPT-2 with tied embeddings",
}
CHECKPOINTS = {
    "gpt2-finetuned": "pretrained on public text, then fine-tuned on public text of the domain",
    "gpt2-pretrained": "pretrained on public text, mostly of other domains",
    "gpt2-scratch": "random weights after a few steps of training",
    "gpt2-tied": "trained on public text of the domain, input and output embeddings tied",
}


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
        papers=(FILM, FLAT_CHAT),
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


SCRATCH = "random weights after a few steps of training"
TRAINED = "trained on public pairs"

LANGUAGE_MODELING = (
    *batched(language_model("wikitext", "wikitext", "encyclopedia sentences"), 2, 4, 8, 16, 32),
    *batched(language_model("enron", "enron", "business e-mail"), 2, 4, 8, 16, 32),
    *batched(language_model("imdb", "imdb", "film reviews that it has not seen before"), 16),
    *batched(language_model("agnews-lm", "agnews-lm", "news that it has not seen before"), 16),
    language_model("wikitext-pretrained", "wikitext", "encyclopedia sentences", "gpt2-pretrained"),
    language_model("wikitext-scratch", "wikitext", "encyclopedia sentences", "gpt2-scratch"),
    language_model("wikitext-tied", "wikitext", "encyclopedia sentences", "gpt2-tied"),
    language_model("enron-pretrained", "enron", "business e-mail", "gpt2-pretrained"),
    language_model("enron-scratch", "enron", "business e-mail", "gpt2-scratch"),
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
TRANSLATION = (
    translator("iwslt", 100, "marian-scratch", SCRATCH),
    translator("iwslt-t500", 500, "marian-scratch", SCRATCH),
    translator("iwslt-t1000", 1000, "marian-scratch", SCRATCH),
    translator("iwslt-finetuned", 100, "marian-finetuned", TRAINED),
    translator("iwslt-finetuned-t500", 500, "marian-finetuned", TRAINED),
)
FEDERATED = (
    federated("agnews-fl", 4, "bilstm", 4, "news by topic"),
    federated("20news-fl", 20, "bilstm", 4, "newsgroup posts by topic"),
    federated("sst2-fl", 2, "bilstm", 8, "phrases by mood"),
    federated("agnews-fl-distilbert", 4, "distilbert", 4, "news by topic"),
    federated("20news-fl-distilbert", 20, "distilbert", 4, "newsgroup posts by topic"),
    federated("sst2-fl-distilbert", 2, "distilbert", 8, "phrases by mood"),
)

SUITE = Suite(
    name="mini",
    summary="Every task family on text and models made for this project: nothing to download.",
    tasks=(*LANGUAGE_MODELING, *CLASSIFICATION, *TRANSLATION, *FEDERATED),
    plan=(Pairing("*", "random"), Pairing("*", "prior_only"), Pairing("*", "bag_of_words")),
)
