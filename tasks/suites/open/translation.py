"""FLAT-CHAT's setting on real sentence pairs, with a Transformer scaled to two cores."""

from __future__ import annotations

from benchmark.spec import Knowledge
from benchmark.suites import Task, Training
from tasks.suites.mini.tasks import FLAT_CHAT, oracle
from tasks.suites.open.classification import PUBLIC

SIZES = (100, 500, 1000, 1500, 2000)
"""Target tokens of a batch, as in the paper."""


def translator(tokens: int) -> Task:
    """A Transformer client that learns German to English from a batch of so many target tokens."""
    return Task(
        name="open/iwslt" if tokens == SIZES[0] else f"open/iwslt-t{tokens}",
        family="translation",
        summary=(
            f"A Transformer learns German to English from talks, {tokens} target tokens to a batch."
        ),
        corpus="data:iwslt",
        model="trained:marian-iwslt",
        objective="translation",
        version=3,
        batch_tokens=tokens,
        snapshots=32 if tokens == SIZES[0] else 10,
        grants=PUBLIC,
        prior="package:smollm2",
        checkpoint=(
            "3 + 3 layers of width 256 and 8,000 types (the paper: 6 + 6, 512 and 16,594), trained "
            "on the public pairs from a random start"
        ),
        seen="unknown",  # SmolLM2, the prior, may have read the talks
        min_tokens=3,
        max_tokens=64,
        utility=("loss", "bleu"),
        training=Training(960, 2, 32, 5e-4, early_stopping=True, test_rows=200),
        papers=(FLAT_CHAT,),
    )


TRANSLATORS = tuple(map(translator, SIZES))
TRANSLATION = (*TRANSLATORS, *(oracle(task, Knowledge.TYPE_COUNT) for task in TRANSLATORS))
