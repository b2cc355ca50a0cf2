"""What `leakboard run --suite open` runs, in the order in which a reader wants to see it.

`FIRST` is what the published board is made of, about two hours of one core: every family of
attacks on one task where it applies, each kind of defense, and what that costs. `REST` has the
papers' own settings, the other corpora, checkpoints and batch sizes; both together are meant to
take about eight hours of two cores. A run may be stopped at any time and goes on from there.
"""

from __future__ import annotations

from benchmark.suites import NO_DEFENSE, ObjectiveName, Pairing, Topic
from tasks.suites.mini.plan import pairings

BASELINES = ("random", "prior_only", "public_sentences")
READING = ("prior_only", "bag_of_words", "dager")
"""A guess, the tokens and the sentences, in seconds."""
LAMPS = ("lamp_cos_brief", "lamp_l2l1_brief")
DAGERS = ("dager", "dager_brief", "dager_paper", "dager_lengths")
QUICK = ("lamp_cos_quick", "lamp_l2l1_quick")
MATCHING = ("dlg_brief", "tag_brief", *LAMPS)
FILMS = ("film_beam_only", "film")
PAPERS = ("dlg", "tag", "lamp_cos", "lamp_l2l1")
"""With all of their steps, one to five minutes a sentence: on `cola-wordpiece-few`, whose prior is
a small GPT-2 over the model's own vocabulary, as in LAMP's paper a large one."""

PANELS: dict[ObjectiveName, tuple[str, ...]] = {
    "causal-lm": ("prior_only", "bag_of_words", "film_beam_only", "dager_brief"),
    "classification": ("prior_only", "bag_of_words", *QUICK, "dager_brief"),
    "translation": ("prior_only", "bag_of_words", "flat_chat_brief"),
}
"""What every defense has to face. FILM's beam search puts in order what noise and pruning leave of
the bag, where DAGER reads nothing. LAMP has 400 steps: with the 80 of `lamp_cos_brief` it finds a
third of the words that it finds with all of them."""

NOISE = ("gaussian_noise[sigma=0.001]", "gaussian_noise", "gaussian_noise[sigma=0.1]")
PRUNING = ("prune[ratio=0.9]", "prune")
MASKING = ("mask", "mask[ratio=0.9]")
PRIVATE = tuple(f"dpsgd[epsilon={epsilon}]" for epsilon in (8.0, 64.0))
FREEZING = ("freeze_embeddings", "freeze_both")
"""As records call them: σ = 0.01, 99 % pruned and half masked are the plain names."""
STRENGTHS = (*NOISE, *PRUNING, *PRIVATE, "freeze_embeddings")
SIMPLE = (NOISE[1], PRUNING[1], PRIVATE[0], "freeze_embeddings")
"""One strength of each kind."""
FEDERATED = ("fedavg", "fede_vocab")


def faced(task: str, objective: ObjectiveName, defenses: tuple[str, ...]) -> tuple[Pairing, ...]:
    """The whole panel on a task, without a defense and under each of several."""
    return pairings((task,), PANELS[objective], (NO_DEFENSE, *defenses))


def hurried(defenses: tuple[str, ...]) -> tuple[Pairing, ...]:
    """More defenses of single sentences before LAMP in a few dozen steps: a lower bound."""
    attacks = ("prior_only", "bag_of_words", *LAMPS, "dager_brief")
    return pairings(("cola-few",), attacks, (NO_DEFENSE, *defenses))


FIRST = (
    *pairings(("cola",), (*BASELINES, "bag_of_words", "dager", "dager_brief")),
    *pairings(("cola-few",), (*BASELINES, "bag_of_words", "dager", *MATCHING)),
    *pairings(("iwslt",), (*BASELINES, "bag_of_words", "flat_chat", "flat_chat_paper")),
    *pairings(("iwslt-oracle",), ("random", "flat_chat_oracle")),
    *pairings(
        ("wikitext",),
        (*BASELINES, "bag_of_words", "dager", "film_beam_only"),
    ),
    *faced("sst2-few", "classification", SIMPLE),
    *hurried(STRENGTHS),
    *pairings(("cola-b2", "cola-b4", "cola-b8", "cola-b16"), READING),
    *pairings(("enron",), (*READING, "film_beam_only")),
    *faced("wikitext", "causal-lm", SIMPLE),
)
"""The published part."""
REST = (
    *pairings(
        ("cola-wordpiece-few",),
        (*BASELINES, "bag_of_words", *DAGERS, *LAMPS, *PAPERS),
    ),
    *pairings(("cola-few",), DAGERS),
    *pairings(("sst2", "rotten-tomatoes"), (*READING, "lamp_cos_brief")),
    *pairings(("cola-finetuned", "cola-dropout", "cola-mpnet"), (*READING, "lamp_cos_brief")),
    *pairings(
        (
            *("sst2-mpnet", "rotten-tomatoes-mpnet", "sst2-finetuned", "rotten-tomatoes-finetuned"),
            *("cola-mpnet-finetuned", "sst2-mpnet-finetuned", "rotten-tomatoes-mpnet-finetuned"),
        ),
        READING,
    ),
    *pairings(("cola-fedavg4", "cola-fedavg16"), READING),
    *pairings(
        (
            *("sst2-b2", "sst2-b4", "sst2-b8", "sst2-b16"),
            *("rotten-tomatoes-b2", "rotten-tomatoes-b4", "rotten-tomatoes-b8"),
            *("rotten-tomatoes-b16", "cola-finetuned-b4", "cola-mpnet-b4", "cola-mpnet-b16"),
        ),
        READING,
    ),
    *pairings(("wikitext", "enron"), ("film", "film_paper", "flat_chat_brief", "rlg")),
    *pairings(("imdb", "agnews-lm"), READING),
    *pairings(
        ("wikitext-finetuned", "enron-finetuned", "imdb-finetuned", "agnews-lm-finetuned"),
        READING,
    ),
    *pairings(
        ("wikitext-b4", "wikitext-b16", "wikitext-b64", "enron-b16"),
        READING,
    ),
    *pairings(
        ("imdb-8x25", "agnews-lm-8x25", "imdb-32x100"), ("random", "bag_of_words", "flat_chat")
    ),
    *pairings(("imdb-8x25-oracle", "agnews-lm-8x25-oracle"), ("random", "flat_chat_oracle")),
    *pairings(
        ("iwslt-t500", "iwslt-t1000", "iwslt-t1500", "iwslt-t2000"),
        ("random", "bag_of_words", "flat_chat"),
    ),
    *pairings(("iwslt-t500-oracle", "iwslt-t2000-oracle"), ("random", "flat_chat_oracle")),
    *pairings(("iwslt",), ("flat_chat_abs", "rlg")),
    *hurried((*MASKING, "freeze_both")),
    *faced("wikitext", "causal-lm", (*NOISE, *PRUNING, *MASKING, *PRIVATE, *FREEZING)),
    *faced("iwslt", "translation", (*NOISE[:2], *PRUNING, *PRIVATE, *MASKING, "freeze_output")),
    *pairings(
        ("agnews-fl", "20news-fl"), ("prior_only", "bag_of_words", "table_alignment"), FEDERATED
    ),
    *pairings(
        ("agnews-fl-minilm",),
        (*READING, "table_alignment"),
        FEDERATED,
    ),
)
PLAN = (*FIRST, *REST)

UTILITY = (
    *(Pairing("sst2", defense=d) for d in (NO_DEFENSE, *SIMPLE)),
    *(Pairing("cola-few", defense=d) for d in (NO_DEFENSE, NOISE[1])),
    *(Pairing("wikitext", defense=d) for d in (NO_DEFENSE, *SIMPLE)),
    *(Pairing("iwslt", defense=d) for d in (NO_DEFENSE, *SIMPLE[:3], "freeze_output")),
    *(Pairing("agnews-fl", defense=d) for d in FEDERATED),
)

LIMITS = (
    "`_brief` variants take 80 to 120 steps of the papers' 2,000 to 2,500, with fewer candidates; "
    "the model is MiniLM and not BERT base, the prior SmolLM2 and not a GPT-2 over WordPiece."
)
TOPICS = (
    Topic(
        "LAMP with the cosine against TAG and DLG",
        ("rouge1", "rouge2", "rougeL"),
        tuple(("cola-few", attack) for attack in ("prior_only", *MATCHING, "dager")),
        LIMITS,
    ),
    Topic(
        "Gradient matching with all of the papers' steps",
        ("rouge1", "rouge2", "rougeL"),
        tuple(("cola-wordpiece-few", attack) for attack in ("prior_only", *PAPERS)),
        "2,500 steps of DLG and TAG; 2,000 of LAMP, with 500 starts, 500 orders of the best one "
        "and 24 phases of 200 orders. The model is MiniLM and not BERT base, the prior a GPT-2 "
        "of 4 layers over WordPiece and not one of 24.",
    ),
    Topic(
        "Which prior serves LAMP better",
        ("rouge1", "rouge2", "rougeL"),
        tuple(
            (task, attack)
            for attack in ("prior_only", *LAMPS)
            for task in ("cola-few", "cola-wordpiece-few")
        ),
        "`cola-few`: SmolLM2 (135 million parameters, much text) reads the decoded candidate. "
        "`cola-wordpiece-few`: a GPT-2 of 11 million parameters over MiniLM's own vocabulary, "
        "trained here on the public sentences of CoLA.",
    ),
    Topic(
        "FILM against prior_only",
        ("rougeL", "type_f1"),
        (
            *(("wikitext", attack) for attack in (*BASELINES[1:], "bag_of_words", *FILMS)),
            *(("enron", attack) for attack in (*READING[:2], FILMS[0])),
        ),
        "SmolLM2 instead of GPT-2. `film_beam_only` has no reordering, which takes minutes a "
        "sentence here.",
    ),
    Topic(
        "FLAT-CHAT against its oracle",
        ("type_f1",),
        (
            *(("iwslt", attack) for attack in ("random", "bag_of_words", "flat_chat")),
            ("iwslt-oracle", "flat_chat_oracle"),
        ),
        "A Transformer of 3 + 3 layers, width 256 and 8,000 types, 300 steps from a random start; "
        "the paper has 6 + 6 layers, width 512 and 16,594 types.",
    ),
    Topic(
        "DAGER by batch size",
        ("exact_match", "rouge1", "rougeL"),
        tuple(
            (f"{corpus}{size}", "dager")
            for corpus in ("cola", "sst2", "rotten-tomatoes")
            for size in ("", "-b2", "-b4", "-b8", "-b16")
        ),
        "MiniLM, 384 wide, instead of BERT base, 768 wide.",
    ),
    Topic(
        "DAGER by model, corpus and checkpoint",
        ("exact_match", "rouge1", "rougeL"),
        tuple(
            (f"{corpus}{model}{checkpoint}", "dager")
            for corpus in ("cola", "sst2", "rotten-tomatoes")
            for model in ("", "-mpnet")
            for checkpoint in ("", "-finetuned")
        ),
        "Single sentences. MiniLM, 384 wide, and MPNet, 768 wide: as published with a fresh head, "
        "and fine-tuned by our script on public sentences.",
    ),
    Topic(
        "DAGER on a decoder",
        ("exact_match", "rougeL"),
        (
            *(
                (f"{corpus}{checkpoint}", "dager")
                for corpus in ("wikitext", "enron", "imdb", "agnews-lm")
                for checkpoint in ("", "-finetuned")
            ),
            *((task, "dager") for task in ("wikitext-b4", "wikitext-b16", "enron-b16")),
        ),
        "SmolLM2, 576 wide, instead of GPT-2, 768 wide; as published in 4 bits, and fine-tuned by "
        "our script on public text.",
    ),
)
