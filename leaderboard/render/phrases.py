"""Terms of the contract in a reader's words; a term that is not listed speaks for itself."""

from __future__ import annotations

from collections.abc import Iterable

from benchmark.spec import Knowledge, Role
from benchmark.suites import SEEN

WORDS: dict[str, str] = {
    Knowledge.LABELS: "the labels",
    Knowledge.LENGTHS: "the sentence lengths",
    Knowledge.FREQUENCIES: "how often each word occurs",
    Knowledge.NOISE_SCALE: "the scale of a defense's noise",
    Knowledge.PUBLIC_TEXT: "public text",
    Knowledge.PRIOR: "a public language model",
    Knowledge.PUBLIC_TABLE: "published word vectors",
    Knowledge.TYPE_COUNT: "the number of distinct tokens",
    Role.WORD_EMBEDDING: "the word embeddings",
    Role.POSITION_EMBEDDING: "the position embeddings",
    Role.OUTPUT: "the output layer",
    "eval": "evaluation mode (dropout off)",
    "train": "training mode (dropout on)",
    **{f"seen:{seen}": words for seen, words in SEEN.items()},
    "sandbox:bubblewrap": "attacks ran with a file tree, processes and a network of their own",
    "sandbox:landlock": "attacks ran with few readable files and without a network",
    "sandbox:audit-hook": "attacks ran behind a Python hook, which does not contain foreign code",
}


def phrase(term: str) -> str:
    """One term in words."""
    return WORDS.get(term, term)


def phrases(terms: Iterable[str]) -> str:
    """A list of terms in words."""
    return ", ".join(phrase(term) for term in terms)
