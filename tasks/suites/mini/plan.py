"""What `make leaderboard` runs: ten minutes of two cores, spent where attacks or defenses differ.

Lines stand in the order in which a reader wants to see them: the first minutes already compare
attacks on one task of each family, then come defenses, then what lies between.
"""

from __future__ import annotations

from benchmark.suites import NO_DEFENSE, ObjectiveName, Pairing

BASELINES = ("random", "prior_only")
DAGER = "dager[work=0.5]"
"""Half the work of `dager_brief`. On five tasks where the work runs out it reads ROUGE-L 0.654
instead of 0.678 in half the time (seed 0, 112 snapshots), and the same where it does not."""
MATCHING = ("dlg_brief", "tag_brief", "lamp_cos_brief", "lamp_l2l1_brief")

PANELS: dict[ObjectiveName, tuple[str, ...]] = {
    "causal-lm": ("prior_only", "bag_of_words", "film_beam_only", "flat_chat_brief", DAGER),
    "classification": (
        *("prior_only", "bag_of_words", "lamp_cos_brief", "lamp_l2l1_brief", DAGER),
    ),
    "translation": ("prior_only", "bag_of_words", "flat_chat_brief"),
}
"""What every defense has to face: a baseline, and of each family of attacks that applies the
strongest, with as much work as some ten seconds a cell allow. Gradient matching is left out of
language modeling and translation, where it reads next to nothing, and RLG, which few hundred tokens
to a batch defeat, beside FLAT-CHAT."""

NOISE = tuple(f"gaussian_noise[sigma={sigma}]" for sigma in (0.001, 0.01, 0.1))
PRUNING = tuple(f"prune[ratio={ratio}]" for ratio in (0.9, 0.99, 0.9999))
PRIVATE = tuple(f"dpsgd[epsilon={epsilon}]" for epsilon in (8.0, 1e4, 1e6))
"""Up to where words come through: on `cola` even the last leaves no more than can be guessed."""
FREEZING = ("freeze_embeddings", "freeze_both")
COMBINED = ("freeze_embeddings+gaussian_noise[sigma=0.001]",)
FEDERATED = ("fedavg", "fede_vocab")
SIMPLE = (NOISE[1], PRUNING[1], PRIVATE[0])
"""One strength of each kind."""


def pairings(
    tasks: tuple[str, ...], attacks: tuple[str, ...], defenses: tuple[str, ...] = (NO_DEFENSE,)
) -> tuple[Pairing, ...]:
    """Every attack on every task under every defense."""
    return tuple(Pairing(t, a, d) for t in tasks for d in defenses for a in attacks)


def faced(task: str, objective: ObjectiveName, defenses: tuple[str, ...]) -> tuple[Pairing, ...]:
    """The whole panel on a task, without a defense and under each of several."""
    return pairings((task,), PANELS[objective], (NO_DEFENSE, *defenses))


FIRST = (
    *pairings(("cola", "wikitext", "iwslt", "agnews-fl"), (*BASELINES, "bag_of_words")),
    *pairings(("cola",), (*MATCHING, "dager", "dager_paper")),
    *pairings(("iwslt",), ("flat_chat", "flat_chat_abs", "flat_chat_paper")),
    *pairings(("wikitext",), ("public_sentences", "film_beam_only", "film")),
)
"""One task of each family, and every family of attacks."""
DEFENDED = (
    *faced("cola", "classification", (*NOISE, *PRUNING, PRIVATE[0])),
    *faced("wikitext-pretrained", "causal-lm", (*SIMPLE, NOISE[0], *FREEZING, *COMBINED)),
    *faced("iwslt-finetuned", "translation", (*SIMPLE, *PRIVATE[1:], "freeze_output")),
    *pairings(("agnews-fl",), ("prior_only", "bag_of_words", "table_alignment"), FEDERATED),
)
"""One task of each objective at the batch size that is easiest to read."""
HARDER = (
    *pairings(
        ("cola-b4", "cola-b8", "cola-b16", "cola-dropout", "cola-fedavg"),
        ("prior_only", "bag_of_words", DAGER),
    ),
    *pairings(
        ("wikitext-memorized", "wikitext-scratch", "enron"),
        ("prior_only", "bag_of_words", "film_beam_only"),
    ),
    *pairings(("wikitext-tied",), ("prior_only", "bag_of_words", "flat_chat_brief", DAGER)),
    *pairings(
        ("iwslt-t500", "iwslt-t1500", "iwslt-finetuned-t1500", "imdb-16x50"),
        ("random", "bag_of_words", "flat_chat"),
    ),
    *pairings(("iwslt-oracle",), ("random", "flat_chat_oracle")),
    *pairings(("sst2-fl-distilbert",), ("prior_only", "bag_of_words", DAGER)),
)
"""Larger batches up to where attacks break, dropout, local steps, other checkpoints, oracles."""
AS_TRAINED = (
    *pairings(("cola-b16",), ("prior_only", "bag_of_words", DAGER), SIMPLE),
    *faced("iwslt-finetuned-b32", "translation", SIMPLE),
    *pairings(("wikitext-pretrained-b16",), PANELS["causal-lm"]),
    *pairings(
        ("wikitext-pretrained-b16",),
        ("prior_only", "bag_of_words", "flat_chat_brief", DAGER),
        SIMPLE,
    ),
    *pairings(("wikitext-pretrained", "wikitext-pretrained-b16"), ("public_sentences",)),
)
"""The same at the batch size that utility is trained with. Gradient matching and FILM
take long for each batch of sixteen, so the panels on `cola-b16` and `wikitext-pretrained-b16` stay
incomplete, which the pages show."""
PLAN = (*FIRST, *DEFENDED, *HARDER, *AS_TRAINED)

UTILITY = (
    *(Pairing("cola", defense=d) for d in (NO_DEFENSE, *SIMPLE)),
    *(Pairing("wikitext-pretrained", defense=d) for d in (NO_DEFENSE, NOISE[1], PRUNING[1])),
    *(Pairing("iwslt-finetuned", defense=d) for d in (NO_DEFENSE, PRUNING[1])),
)
"""What of it is trained in the same ten minutes."""
